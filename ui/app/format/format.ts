/*
 * Amounts, times and names as text, the same in every locale. Absolute times are in UTC unless the operator chose local time, so that
 * two people who compare screens see the same text; each names its zone.
 */
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { formatBytes, formatCount } from "#proto/format.ts";
import { plainText, spellOut } from "#proto/plain-text.ts";

export { formatCountOf } from "#proto/format.ts";
export { formatBytes, formatCount, plainText };

/** Returns a count as `formatCount` does; "" for an unknown one. */
export const formatKnown = (count: number | undefined): string =>
  count === undefined ? "" : formatCount(count);

/** Returns a count in at most four characters, never rounded up: `999`, `9.4k`, `31k`, `1.2M`. */
export const formatTiny = (count: number): string => {
  if (!Number.isFinite(count) || count < 1000) return formatCount(count);
  const [size, unit] = count < 1_000_000 ? [1000, "k"] : [1_000_000, "M"];
  const value = count / size;
  return `${value >= 10 ? Math.floor(value) : Math.floor(value * 10) / 10}${unit}`;
};

/** Returns a share in whole percent, rounded down, so that only a full queue reads `100 %`. */
export const formatShare = (part: number, whole: number): string =>
  `${whole > 0 ? Math.floor((part / whole) * 100) : 0} %`;

/** Returns a share that may be a small one of many: `12 %`, `0.3 %`, `under 0.1 %`. */
export const formatPart = (part: number, whole: number): string => {
  const percent = whole > 0 ? (part / whole) * 100 : 0;
  if (percent === 0 || percent >= 10) return formatShare(part, whole);
  return percent < 0.1 ? "under 0.1 %" : `${Math.floor(percent * 10) / 10} %`;
};

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

const milliseconds = (at: string | number) => (typeof at === "number" ? at : Date.parse(at));

/**
 * Returns a duration in at most two units, rounded down: `12 s`, `4 min`, `3 h 20 min`, `3 d 4 h`, and days alone from ten on. A
 * negative duration is written as its magnitude.
 */
export const formatDuration = (seconds: number): string => {
  if (!Number.isFinite(seconds)) return "unknown";
  const whole = Math.floor(Math.abs(seconds));
  if (whole < minute) return `${whole} s`;
  if (whole < hour) return `${Math.floor(whole / minute)} min`;
  if (whole < day)
    return twoUnits(Math.floor(whole / hour), "h", Math.floor((whole % hour) / minute), "min");
  if (whole < 10 * day)
    return twoUnits(Math.floor(whole / day), "d", Math.floor((whole % day) / hour), "h");
  return `${formatCount(Math.floor(whole / day))} d`;
};

const twoUnits = (large: number, largeUnit: string, small: number, smallUnit: string) =>
  small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;

/** How far two clocks may disagree before the page shows it. */
const skewSecondsMax = 5;

/** Returns the age of an event: `12 s ago`; `4 min ahead` when its timestamp is later than clock skew explains. */
export const formatAgo = (at: string | number, now: number): string => {
  const seconds = (now - milliseconds(at)) / 1000;
  if (seconds < -skewSecondsMax) return `${formatDuration(seconds)} ahead`;
  return Number.isNaN(seconds) ? "unknown" : `${formatDuration(Math.max(0, seconds))} ago`;
};

/** Returns when something is due: `in 9 d`, or `3 h ago` once it has passed. */
export const formatUntil = (at: string | number, now: number): string => {
  const seconds = (milliseconds(at) - now) / 1000;
  if (Number.isNaN(seconds)) return "unknown";
  return seconds >= 0 ? `in ${formatDuration(seconds)}` : `${formatDuration(seconds)} ago`;
};

/** The zone of absolute times: UTC, or that of this machine. */
export type TimeZone = "utc" | "local";

/** Returns the date and the time of day in a zone, `["2026-11-20", "16:45:03"]`; undefined for an invalid time. */
const dateAndTime = (
  at: string | number,
  zone: TimeZone,
): readonly [string, string] | undefined => {
  const date = new Date(milliseconds(at));
  if (Number.isNaN(date.getTime())) return undefined;
  const shifted =
    zone === "utc" ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  const text = shifted.toISOString();
  return [text.slice(0, -14), text.slice(-13, -5)];
};

/** Returns the name of a zone at a time: `UTC`, or the offset of this machine, `+01:00`. */
export const zoneName = (at: string | number, zone: TimeZone): string => {
  if (zone === "utc") return "UTC";
  const minutes = -new Date(milliseconds(at)).getTimezoneOffset();
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
};

/** Returns the absolute time, to the second: `2026-11-20 16:45:03 UTC`; in local time with its offset, `2026-11-20 17:45:03 +01:00`. */
export const formatTimestamp = (at: string | number, zone: TimeZone = "utc"): string => {
  const parts = dateAndTime(at, zone);
  return parts === undefined ? "unknown" : `${parts[0]} ${parts[1]} ${zoneName(at, zone)}`;
};

/** Returns the absolute time without its zone, and without the date on the day of `now`: `16:45:03`, `2026-11-19 16:45`. */
export const formatShortTimestamp = (at: string | number, now: number, zone: TimeZone): string => {
  const parts = dateAndTime(at, zone);
  if (parts === undefined) return "unknown";
  const [date, time] = parts;
  return date === dateAndTime(now, zone)?.[0] ? time : `${date} ${time.slice(0, 5)}`;
};

/** Returns the day: `20 Nov`. */
export const formatDay = (at: string | number, zone: TimeZone = "utc"): string => {
  const parts = dateAndTime(at, zone);
  // RFC 7231: `Fri, 20 Nov 2026 00:00:00 GMT`.
  return parts === undefined
    ? "unknown"
    : new Date(parts[0]).toUTCString().slice(5, 11).replace(/^0/, "");
};

/** Spaces that a page would not show: at an end, after another one, and those that only look like one. */
const hiddenSpaces = /^ | $|(?<= ) |(?! )\p{Zs}/gu;

/** Spells out invisible characters of a name, and the spaces that a page would not show: `[U+0020]web-1`. */
export const plainName = (text: string): string => plainText(text).replace(hiddenSpaces, spellOut);

/** Returns text of at most `charactersMax` characters with its middle left out: the ends tell serial numbers apart. */
export const shortened = (text: string, charactersMax = 16): string => {
  if (text.length <= charactersMax) return text;
  const kept = Math.floor((charactersMax - 1) / 2);
  return `${text.slice(0, kept)}…${text.slice(-kept)}`;
};

/** A piece of evidence; `exact` is core's own text, where it differs. */
interface EvidencePart {
  text: string;
  exact?: string;
}

type Condition = Pick<FleetHealthRow["conditions"][number], "state" | "evidence">;

const amounts = /(\d+) s\b|(\d+) of (\d+) bytes|\d{4,}(?= (?:dropped|dead letters|lost)\b)/g;

const formatAmount = ([exact, seconds, bytes, bytesMax]: RegExpExecArray) => {
  if (seconds !== undefined) return formatDuration(Number(seconds));
  if (bytes === undefined) return formatCount(Number(exact));
  return `${formatBytes(Number(bytes))} of ${formatBytes(Number(bytesMax))}`;
};

/** Reports whether core measured the evidence; a host's own words stay unchanged. */
const isMeasured = ({ state, evidence }: Condition) =>
  state !== "config_invalid" &&
  (state !== "renewal_failed" || evidence.startsWith("the certificate expired "));

/** Returns the evidence of a condition with seconds and bytes in larger units: `7500 s` is `2 h 5 min`. */
export const evidenceParts = (condition: Condition): EvidencePart[] => {
  const { evidence } = condition;
  if (!isMeasured(condition)) return [{ text: evidence }];
  const parts: EvidencePart[] = [];
  let end = 0;
  for (const match of evidence.matchAll(amounts)) {
    const [exact] = match;
    const text = formatAmount(match);
    parts.push(
      { text: evidence.slice(end, match.index) },
      text === exact ? { text } : { text, exact },
    );
    end = match.index + exact.length;
  }
  return [...parts, { text: evidence.slice(end) }].filter(({ text }) => text !== "");
};

/** Returns a name in snake case as words. */
export const inWords = (name: string): string => name.replaceAll("_", " ");

/** Returns words with a capital letter at their beginning. */
export const capitalised = (words: string): string =>
  `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
