/**
 * Amounts, times and names as text. Times are computed from milliseconds and in UTC, so that two people who compare screens see the
 * same text in every time zone and locale.
 */

/** Returns a count with thousands separators, rounded: `9,412`. */
export const formatCount = (count: number): string =>
  Number.isFinite(count) ? String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",") : "unknown";

/** Returns a count in at most five characters, never rounded up: `9,412`, `31.2k`, `521k`, `1.2M`. */
export const formatCompact = (count: number): string => {
  if (!Number.isFinite(count) || count < 10_000) return formatCount(count);
  const [size, unit] = count < 1_000_000 ? [1000, "k"] : [1_000_000, "M"];
  const value = count / size;
  return `${value >= 100 ? Math.floor(value) : Math.floor(value * 10) / 10}${unit}`;
};

/** Returns a count with its noun: `1 host`, `9,412 hosts`. */
export const formatCountOf = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`;

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** Returns bytes in binary units, never rounded up to the next unit: `0 B`, `1.5 KiB`, `99.9 MiB`, `1,023 GiB`. */
export const formatBytes = (bytes: number): string => {
  if (!Number.isFinite(bytes) || bytes < 0) return "unknown";
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < byteUnits.length - 1) {
    value /= 1024;
    unit += 1;
  }
  // Rounded down, so that a queue just below its cap never reads as full.
  const text = unit === 0 || value >= 100 ? formatCount(Math.floor(value)) : String(Math.floor(value * 10) / 10);
  return `${text} ${byteUnits[unit]}`;
};

/** Returns a share in whole percent, rounded down, so that only a full queue reads `100 %`. */
export const formatShare = (part: number, whole: number): string =>
  `${whole > 0 ? Math.floor((part / whole) * 100) : 0} %`;

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

const milliseconds = (at: string | number): number => (typeof at === "number" ? at : Date.parse(at));

/**
 * Returns a duration in at most two units, rounded down: `12 s`, `4 min`, `3 h 20 min`, `3 d 4 h`, and days alone from ten on. A
 * negative duration is written as its magnitude.
 */
export const formatDuration = (seconds: number): string => {
  if (!Number.isFinite(seconds)) return "unknown";
  const whole = Math.floor(Math.abs(seconds));
  if (whole < minute) return `${whole} s`;
  if (whole < hour) return `${Math.floor(whole / minute)} min`;
  if (whole < day) return twoUnits(Math.floor(whole / hour), "h", Math.floor((whole % hour) / minute), "min");
  if (whole < 10 * day) return twoUnits(Math.floor(whole / day), "d", Math.floor((whole % day) / hour), "h");
  return `${formatCount(Math.floor(whole / day))} d`;
};

const twoUnits = (large: number, largeUnit: string, small: number, smallUnit: string): string =>
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

/** Returns the absolute time, to the second: `2026-11-20 16:45:03 UTC`. */
export const formatTimestamp = (at: string | number): string => {
  const date = new Date(milliseconds(at));
  if (Number.isNaN(date.getTime())) return "unknown";
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
};

/** Returns the day in UTC: `20 Nov`. */
export const formatDay = (at: string | number): string => {
  const date = new Date(milliseconds(at));
  // RFC 7231: `Fri, 20 Nov 2026 16:45:03 GMT`.
  return Number.isNaN(date.getTime()) ? "unknown" : date.toUTCString().slice(5, 11).replace(/^0/, "");
};

/** Marks that reorder the text around them (UAX #9, section 2) or have no width, except the joiners that scripts use. */
const invisible = /(?![\u200c\u200d])\p{Cf}/gu;

/** Spells out invisible characters of a host's text, `[U+202E]`, so that no name can look like another one. */
export const plainText = (text: string): string =>
  text.replace(invisible, (mark) => `[U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`);
