/** Durations as queries and configuration write them: a whole number and one of `s`, `m`, `h`, `d` (contract, section 13). */

import { filterSecondsMax } from "../../../proto/fleet-health/filter.ts";

const units = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

/** The longest duration that the health report takes in a filter. */
export const durationSecondsMax = filterSecondsMax;

/** The seconds of `10m`, `3d`…; undefined when it is not of that form or exceeds `durationSecondsMax`. */
export const parseDuration = (text: string): number | undefined => {
  const [, digits, letter] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const unit = units.find(([name]) => name === letter);
  if (digits === undefined || unit === undefined) return undefined;
  const seconds = Number(digits) * unit[1];
  return seconds <= durationSecondsMax ? seconds : undefined;
};

/** A whole number of seconds in the largest unit that keeps it exact, so that `parseDuration` gives it back: 600 is `10m`. */
export const writeDuration = (seconds: number): string => {
  const [letter, size] = units.find(([, size]) => seconds >= size && seconds % size === 0) ?? ["s", 1];
  return `${seconds / size}${letter}`;
};
