import { filterCountMax, filterSecondsMax } from "../vocabulary.ts";

/** Units by their sizes, the largest first; the last is 1. */
type Units = readonly (readonly [name: string, size: number])[];

const durations: Units = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];
const sizes: Units = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
  ["B", 1],
];

/** Returns an amount in its smallest unit; undefined for an unknown unit, and for more than `max`. */
const amountOf = (digits: string | undefined, size: number | undefined, max: number) => {
  const amount = Number(digits) * (size ?? Number.NaN);
  return amount <= max ? amount : undefined;
};

/** Writes an amount in the largest exact unit. */
const inUnits = (amount: number, units: Units): string => {
  const isExact = ([, size]: Units[number]) => amount >= size && amount % size === 0;
  const [name, size] = units.find(isExact) ?? units.at(-1) ?? ["", 1];
  return `${amount / size}${name}`;
};

/** Parses a duration such as `10m` or `3d` into seconds; undefined if it is malformed or longer than a filter takes. */
export const parseDuration = (text: string): number | undefined => {
  const [, digits, letter] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const size = durations.find(([name]) => name === letter)?.[1];
  return amountOf(digits, size, filterSecondsMax);
};

/** Writes a whole number of seconds in the largest exact unit: 600 is `10m`. `parseDuration` is its inverse. */
export const writeDuration = (seconds: number): string => inUnits(seconds, durations);

/** Other spellings that people type: in a queue, `10MB` and `10M` mean binary units too. */
const spellings: Readonly<Record<string, string>> = { t: "tib", g: "gib", m: "mib", k: "kib" };

/** Parses a size such as `10MiB` into bytes; undefined if it is malformed or larger than a filter takes. */
export const parseSize = (text: string): number | undefined => {
  const [, digits, letters = ""] = /^(\d{1,12})([a-z]{1,3})$/i.exec(text) ?? [];
  const name = letters.toLowerCase();
  const spelling = spellings[name.replace(/b$/, "")] ?? name;
  const size = sizes.find(([unit]) => unit.toLowerCase() === spelling)?.[1];
  return amountOf(digits, size, filterCountMax);
};

/** Writes a whole number of bytes in the largest exact unit. `parseSize` is its inverse. */
export const writeSize = (bytes: number): string => inUnits(bytes, sizes);

/** Parses a count; undefined if it is malformed or larger than a filter takes. */
export const parseCount = (text: string): number | undefined =>
  /^\d{1,12}$/.test(text) ? Number(text) : undefined;

/** Parses a share such as `50%`; undefined if it is malformed or more than all. */
export const parsePercent = (text: string): number | undefined => {
  const [, digits] = /^(\d{1,3})%$/.exec(text) ?? [];
  return digits === undefined || Number(digits) > 100 ? undefined : Number(digits);
};
