import { type FleetFilter, filterToParams } from "../../../proto/fleet-health/filter.ts";
import type { Period } from "./sql.ts";

/** Returns a value of a row for a person. Names were written by others: without line breaks and control characters, and not too long. */
export const shown = (value: unknown, lengthMax = 120): string => {
  if (value === null || value === undefined || value === "") return "none";
  const text = Array.isArray(value)
    ? value.join(", ")
    : typeof value === "object"
      ? JSON.stringify(value)
      : String(value);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it replaces
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim();
  return line.length > lengthMax ? `${line.slice(0, lengthMax)}…` : line;
};

/** Returns a number of a row; a bigint arrives as a text. */
export const numberIn = (value: unknown): number => Number(value ?? 0) || 0;

/** Returns `3 hosts` or `1 host`. */
export const counted = (value: unknown, noun: string): string => {
  const count = numberIn(value);
  return `${count.toLocaleString("en-US")} ${count === 1 ? noun : `${noun}s`}`;
};

/** Units with the length from which they are used: hours up to two days, as in `24 h`. */
const units: readonly (readonly [number, string, number])[] = [
  [86_400, "d", 172_800],
  [3_600, "h", 3_600],
  [60, "min", 60],
];

/** Returns a length of time in whole units, such as `3 h`. */
export const lasting = (seconds: unknown): string => {
  const length = Math.abs(numberIn(seconds));
  const [size, unit] = units.find(([, , from]) => length >= from) ?? [1, "s"];
  return `${Math.floor(length / size)} ${unit}`;
};

/** Returns a period in words, such as `in the last 24 h`. */
export const duringPeriod = ({ since, seconds }: Period): string =>
  since === null ? `in the last ${lasting(seconds)}` : `since ${at(since)}`;

/** Returns how long ago something happened; `never` for null. */
export const ago = (seconds: unknown): string =>
  seconds === null || seconds === undefined ? "never" : `${lasting(seconds)} ago`;

/** Returns a timestamp in UTC, to the minute. */
export const at = (value: unknown): string => {
  const time = value === null || value === undefined ? Number.NaN : Date.parse(String(value));
  return Number.isNaN(time) ? shown(value) : `${new Date(time).toISOString().slice(0, 16).replace("T", " ")} UTC`;
};

/** Returns a size in binary units. */
export const sized = (bytes: unknown): string => {
  let size = numberIn(bytes);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${unit === "B" ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
};

/** Returns the start of a config's hash. */
export const hash = (value: unknown): string => (typeof value === "string" ? shown(value.slice(0, 12)) : "none");

/** Returns the path of the fleet page with a filter. */
export const fleetPath = (filter: FleetFilter): string => {
  const params = filterToParams(filter);
  return params.size === 0 ? "/fleet" : `/fleet?${params}`;
};

/** Returns the lines of an answer. */
export const lines = (...parts: readonly (string | readonly (string | null)[] | null)[]): string =>
  parts
    .flat()
    .filter((line) => line !== null)
    .join("\n");

/** Returns a line that reports rows which are not listed; null when all are. */
export const more = (total: unknown, listed: number): string | null =>
  numberIn(total) > listed ? `- and ${(numberIn(total) - listed).toLocaleString("en-US")} more` : null;
