/** The lines of one read. */
export interface Lines {
  /** Offsets in `chunk`, without line ends (`\n` or `\r\n`): start, end, start, end, … */
  readonly bounds: readonly number[];
  /** Whether there is one line, and it is a piece of a longer one that continues. */
  readonly partial: boolean;
  /** Where in `chunk` the next read starts: after the last line. */
  readonly next: number;
  /** Bytes of NULs that were skipped: the hole that a truncation leaves under a writer that keeps its offset. */
  readonly nulBytes: number;
}

/** The longest line that is stored whole. */
export const lineBytesMax = 1024 * 1024;
const newline = 0x0a;
const carriageReturn = 0x0d;

/** How lines are found. */
export interface LineOptions {
  /** Whether the end of the chunk ends a line. */
  readonly final: boolean;
  /** Whether a line of this length still fits into the batch. */
  admits(length: number): boolean;
}

/** Returns where the NULs end that begin at `start`. */
const endOfNuls = (chunk: Uint8Array, start: number): number => {
  let end = start;
  while (end < chunk.length && chunk[end] === 0) end++;
  return end;
};

/** Returns the end of a line without its line end, of which `stop` is the first byte or, before a `\n`, the second one. */
const endOfText = (chunk: Uint8Array, start: number, stop: number): number =>
  stop > start && chunk[stop - 1] === carriageReturn ? stop - 1 : stop;

/**
 * Finds the complete lines of a chunk from `from` on. Returns the first one, and further ones until `admits` rejects a length; an incomplete
 * last line only if `final`. Splits a line of more than 1 MiB, and returns each piece alone. NULs at the beginning of a line are skipped.
 */
export const findLines = (chunk: Buffer, from: number, { final, admits }: LineOptions): Lines => {
  const bounds: number[] = [];
  let nulBytes = 0;
  let start = from;
  while (start < chunk.length) {
    const text = endOfNuls(chunk, start);
    nulBytes += text - start;
    start = text;
    const found = chunk.indexOf(newline, start);
    const stop = found === -1 ? chunk.length : found;
    const end = endOfText(chunk, start, stop);
    const isLong = end - start > lineBytesMax;
    if (isLong && bounds.length === 0)
      return {
        bounds: [start, start + lineBytesMax],
        partial: true,
        next: start + lineBytesMax,
        nulBytes,
      };
    if (isLong || start === chunk.length || (found === -1 && !final)) break;
    if (!admits(end - start) && bounds.length > 0) break;
    bounds.push(start, end);
    start = found === -1 ? stop : found + 1;
  }
  return { bounds, partial: false, next: start, nulBytes };
};
