/* Cursors name entries: `s=LINE;i=NUMBER;b=BOOT;m=MONOTONIC;t=TIME;x=HASH`, numbers in hexadecimal, times in microseconds. */

interface Cursor {
  /** Entries of one line of journal files have rising numbers, without a hole. */
  readonly line: string;
  readonly number: number;
  /** The part of the cursor that is the same in each file that has the entry. */
  readonly entry: string;
  readonly atMs: number;
}

/** The last time of a `Date`. */
const timeMsMax = 8.64e15;

const parseCursor = (cursor: string): Cursor | undefined => {
  const [, line, number, entry, at] =
    /^s=([^;]*);i=([0-9a-f]+);(b=.*;t=([0-9a-f]+);x=.*)$/.exec(cursor) ?? [];
  if (line === undefined || number === undefined || entry === undefined) return undefined;
  const atMs = Math.min(Number.parseInt(at ?? "0", 16) / 1000, timeMsMax);
  return { line, entry, number: Number.parseInt(number, 16), atMs };
};

/** Returns the time of the entry that a cursor names, in milliseconds; 0 if it does not say. */
export const timeOfCursor = (cursor: string): number => parseCursor(cursor)?.atMs ?? 0;

/** Reports whether two cursors name one entry: journald moves entries to other files at the boot. */
export const isSameEntry = (one: string, other: string): boolean =>
  one === other || (parseCursor(one)?.entry ?? one) === (parseCursor(other)?.entry ?? other);

/**
 * Returns how many entries are missing between two that were read one after the other; undefined if nobody knows. `isFound` is false if the
 * first one is not in the journal any more.
 */
export const missingBetween = (
  before: string,
  after: string,
  isFound: boolean,
): number | undefined => {
  const from = parseCursor(before);
  const to = parseCursor(after);
  if (from && to && from.line === to.line && to.number > from.number)
    return to.number - from.number - 1;
  return isFound ? 0 : undefined;
};
