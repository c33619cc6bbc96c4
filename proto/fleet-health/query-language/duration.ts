import { filterSecondsMax } from "../vocabulary.ts";

const units = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

/** Parses a duration such as `10m` or `3d` into seconds; undefined if it is malformed or longer than a filter takes. */
export const parseDuration = (text: string): number | undefined => {
  const [, digits, letter] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const unit = units.find(([name]) => name === letter);
  if (digits === undefined || unit === undefined) return undefined;
  const seconds = Number(digits) * unit[1];
  return seconds <= filterSecondsMax ? seconds : undefined;
};

/** Writes a whole number of seconds in the largest exact unit: 600 is `10m`. `parseDuration` is its inverse. */
export const writeDuration = (seconds: number): string => {
  const unit = units.find(([, size]) => seconds >= size && seconds % size === 0);
  if (unit === undefined) return `${seconds}s`;
  const [letter, size] = unit;
  return `${seconds / size}${letter}`;
};
