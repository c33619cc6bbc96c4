/** The loops over columns: each over one kind of array, and without a call for a host. */
import type { Comparator, Constant } from "./expression.ts";

/** A number of each host, or one for all. */
export type Numbers = number | Float64Array;

/** Returns the numbers of the hosts at some places. */
export const pickNumbers = (values: Float64Array, places: Uint32Array): Float64Array => {
  const picked = new Float64Array(places.length);
  for (let at = 0; at < places.length; at++) picked[at] = values[places[at] as number] as number;
  return picked;
};

/** Returns the marks of the hosts at some places. */
export const pickFlags = (values: Uint8Array, places: Uint32Array): Uint8Array => {
  const picked = new Uint8Array(places.length);
  for (let at = 0; at < places.length; at++) picked[at] = values[places[at] as number] as number;
  return picked;
};

/** The values of a column: numbers, keys beyond 2^53, or flags. Those of names are the numbers of their texts. */
export type HostValues = Float64Array | BigInt64Array | Uint8Array;

/** Returns the values of the hosts at some places. */
export const pickValues = (values: HostValues, places: Uint32Array): HostValues => {
  if (values instanceof Float64Array) return pickNumbers(values, places);
  if (values instanceof Uint8Array) return pickFlags(values, places);
  const picked = new BigInt64Array(places.length);
  for (let at = 0; at < places.length; at++) picked[at] = values[places[at] as number] as bigint;
  return picked;
};

/** Returns how many hosts are marked. */
export const countMarks = (marks: Uint8Array): number => {
  const words = fours(marks);
  let count = 0;
  // Each byte is 0 or 1, so that a product adds the four of them in its highest byte.
  for (let at = 0; at < words.length; at++)
    count += Math.imul(words[at] as number, 0x01010101) >>> 24;
  for (let at = words.length * 4; at < marks.length; at++) count += marks[at] as number;
  return count;
};

/** Returns the places that are marked. */
export const placesOf = (marks: Uint8Array): Uint32Array => {
  const words = fours(marks);
  const length = countMarks(marks);
  const places = new Uint32Array(length);
  if (length === marks.length) {
    for (let at = 0; at < length; at++) places[at] = at;
    return places;
  }
  for (let at = 0, next = 0; next < length; at++) {
    // Four hosts at once, as most conditions are of few.
    while ((at & 3) === 0 && words[at >> 2] === 0) at += 4;
    if (marks[at] === 1) places[next++] = at;
  }
  return places;
};

/** The marks of four hosts as one number; those of the last three may be missing. */
const fours = ({ buffer, byteOffset, length }: Uint8Array): Uint32Array =>
  new Uint32Array(buffer, byteOffset, length >> 2);

/** Returns how many bounds a value reaches. */
export const bucketOf = (value: number, bounds: readonly number[]): number => {
  let from = 0;
  let until = bounds.length;
  while (from < until) {
    const middle = (from + until) >> 1;
    if ((bounds[middle] as number) <= value) from = middle + 1;
    else until = middle;
  }
  return from;
};

/** Marks the others. */
export const invert = (result: Uint8Array): void => {
  const words = fours(result);
  for (let at = 0; at < words.length; at++) words[at] = (words[at] as number) ^ 0x01010101;
  for (let at = words.length * 4; at < result.length; at++) result[at] = 1 - (result[at] as number);
};

/** Removes the marks of another. */
export const subtract = (result: Uint8Array, other: Uint8Array): void => {
  const words = fours(result);
  const others = fours(other);
  for (let at = 0; at < words.length; at++)
    words[at] = (words[at] as number) & ~(others[at] as number);
  for (let at = words.length * 4; at < result.length; at++)
    result[at] = (result[at] as number) & ~(other[at] as number);
};

/** Keeps the marks that another has too. */
export const intersect = (result: Uint8Array, other: Uint8Array): void => {
  const words = fours(result);
  const others = fours(other);
  for (let at = 0; at < words.length; at++)
    words[at] = (words[at] as number) & (others[at] as number);
  for (let at = words.length * 4; at < result.length; at++)
    result[at] = (result[at] as number) & (other[at] as number);
};

/** Adds the marks of another. */
export const unite = (result: Uint8Array, other: Uint8Array): void => {
  const words = fours(result);
  const others = fours(other);
  for (let at = 0; at < words.length; at++)
    words[at] = (words[at] as number) | (others[at] as number);
  for (let at = words.length * 4; at < result.length; at++)
    result[at] = (result[at] as number) | (other[at] as number);
};

type Compare = (result: Uint8Array, values: Float64Array, other: Numbers) => void;

const isLess: Compare = (result, values, other) => {
  if (typeof other === "number")
    for (let at = 0; at < result.length; at++) result[at] = (values[at] as number) < other ? 1 : 0;
  else
    for (let at = 0; at < result.length; at++)
      result[at] = (values[at] as number) < (other[at] as number) ? 1 : 0;
};

const isGreater: Compare = (result, values, other) => {
  if (typeof other === "number")
    for (let at = 0; at < result.length; at++) result[at] = (values[at] as number) > other ? 1 : 0;
  else
    for (let at = 0; at < result.length; at++)
      result[at] = (values[at] as number) > (other[at] as number) ? 1 : 0;
};

const isEqual: Compare = (result, values, other) => {
  if (typeof other === "number")
    for (let at = 0; at < result.length; at++)
      result[at] = (values[at] as number) === other ? 1 : 0;
  else
    for (let at = 0; at < result.length; at++)
      result[at] = (values[at] as number) === (other[at] as number) ? 1 : 0;
};

/** Each comparison by one of three, or its opposite: no value is null. */
export const bases: Readonly<Record<Comparator, [base: Compare, isOpposite: boolean]>> = {
  "=": [isEqual, false],
  "<>": [isEqual, true],
  "<": [isLess, false],
  ">=": [isLess, true],
  ">": [isGreater, false],
  "<=": [isGreater, true],
};

/** Compares texts or keys with a constant of their type. */
export const compareEach = (
  values: readonly string[] | BigInt64Array,
  operator: Comparator,
  constant: Constant,
  count: number,
): Uint8Array => {
  const holds = {
    "=": (value: Constant) => value === constant,
    "<>": (value: Constant) => value !== constant,
    "<": (value: Constant) => value < constant,
    "<=": (value: Constant) => value <= constant,
    ">": (value: Constant) => value > constant,
    ">=": (value: Constant) => value >= constant,
  }[operator];
  const result = new Uint8Array(count);
  for (let at = 0; at < count; at++) result[at] = holds(values[at] as Constant) ? 1 : 0;
  return result;
};
