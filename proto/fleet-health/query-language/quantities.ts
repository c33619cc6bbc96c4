import { filterCountMax } from "../vocabulary.ts";

const units = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
  ["B", 1],
] as const;

/** Other spellings that people type: in a queue, `10MB` and `10M` mean binary units too. */
const spellings: Readonly<Record<string, string>> = { t: "tib", g: "gib", m: "mib", k: "kib" };

/** Parses a size such as `10MiB` into bytes; undefined if it is malformed or larger than a filter takes. */
export const parseSize = (text: string): number | undefined => {
  const [, digits, letters = ""] = /^(\d{1,12})([a-z]{1,3})$/i.exec(text) ?? [];
  const name = letters.toLowerCase();
  const spelling = spellings[name.replace(/b$/, "")] ?? name;
  const size = units.find(([unit]) => unit.toLowerCase() === spelling)?.[1];
  if (digits === undefined || size === undefined) return undefined;
  const bytes = Number(digits) * size;
  return bytes <= filterCountMax ? bytes : undefined;
};

/** Writes a whole number of bytes in the largest exact unit. `parseSize` is its inverse. */
export const writeSize = (bytes: number): string => {
  const [unit, size] = units.find(([, each]) => bytes >= each && bytes % each === 0) ?? ["B", 1];
  return `${bytes / size}${unit}`;
};

/** Parses a count; undefined if it is malformed or larger than a filter takes. */
export const parseCount = (text: string): number | undefined =>
  /^\d{1,12}$/.test(text) ? Number(text) : undefined;

/** Parses a share such as `50%`; undefined if it is malformed or more than all. */
export const parsePercent = (text: string): number | undefined => {
  const [, digits] = /^(\d{1,3})%$/.exec(text) ?? [];
  return digits === undefined || Number(digits) > 100 ? undefined : Number(digits);
};
