import type { StreamPositions } from "./position.ts";

/** The lines of one read. */
export interface Lines {
  /** Offsets in `chunk`, without line ends (`\n` or `\r\n`): start, end, start, end, … */
  readonly bounds: readonly number[];
  /** Whether there is one line, and it is a piece of a longer one that continues. */
  readonly partial: boolean;
  /** Where in `chunk` the next read starts: after the last line. */
  readonly next: number;
  /** Bytes of NULs before text that were skipped: the hole that a truncation leaves under a writer that keeps its offset. */
  readonly nulBytes: number;
  /** The records of a container's log; `bounds` are offsets in its `content` then. */
  readonly container?: ContainerRecords;
}

/** The records of a container's log, whose texts are not those of the file. */
export interface ContainerRecords {
  readonly content: Buffer;
  /** Where each record starts in the chunk. */
  readonly starts: readonly number[];
  /** The attributes of each record, as `encodeAttributes` returns them. */
  readonly attributes: readonly Buffer[];
  /** How many are in no format of a container's log. */
  readonly unparsed: number;
  /** How far each stream is stored. */
  readonly streams: StreamPositions;
}

/** The code units of an encoding in which line ends are those of ASCII: one byte, or two of UTF-16. */
export interface CodeUnit {
  readonly bytes: 1 | 2;
  /** Which of its bytes has an ASCII character; the other one is 0. */
  readonly asciiAt: 0 | 1;
}

/** How lines are found. */
export interface LineOptions {
  readonly unit: CodeUnit;
  /** Whether the end of the chunk ends a line. */
  readonly final: boolean;
  /** Whether NULs end what is found before them, since no record continues over a hole. */
  readonly stopsAtHole: boolean;
  /** Reports whether a line of this length still fits into the batch. */
  admits(length: number): boolean;
}

/** The longest line that is stored whole. */
export const lineBytesMax = 1024 * 1024;

const newline = 0x0a;

const carriageReturn = 0x0d;

/**
 * Finds the complete lines of a chunk from `from` on. Returns the first one, and further ones until `admits` rejects a length; an incomplete
 * last line only if `final`. Splits a line of more than 1 MiB, and returns each piece alone. NULs at the beginning of a line are skipped if
 * something follows them, or if `final`: a writer may have reserved them.
 */
export const findLines = (
  chunk: Buffer,
  from: number,
  { unit, final, stopsAtHole, admits }: LineOptions,
): Lines => {
  const bounds: number[] = [];
  let nulBytes = 0;
  let start = from;
  while (start < chunk.length) {
    const text = endOfNuls(chunk, start, unit);
    const isHole = stopsAtHole && text > start && bounds.length > 0;
    if (isHole || (!final && chunk.length - text < unit.bytes)) break;
    nulBytes += text - start;
    start = text;
    const found = findNewline(chunk, start, unit);
    const stop = found === -1 ? chunk.length : found;
    const end = endOfText(chunk, start, stop, unit);
    const isLong = end - start > lineBytesMax;
    if (isLong && bounds.length === 0) {
      const next = start + lineBytesMax;
      return { bounds: [start, next], partial: true, next, nulBytes };
    }
    if (isLong || start === chunk.length || (found === -1 && !final)) break;
    if (!admits(end - start) && bounds.length > 0) break;
    bounds.push(start, end);
    start = found === -1 ? stop : found + unit.bytes;
  }
  return { bounds, partial: false, next: start, nulBytes };
};

/** Returns where the first `\n` begins that is a whole unit, counted from `start`; -1 if there is none. */
const findNewline = (chunk: Buffer, start: number, unit: CodeUnit): number => {
  let found = chunk.indexOf(newline, start);
  for (; found !== -1; found = chunk.indexOf(newline, found + 1)) {
    const at = found - unit.asciiAt;
    if ((at - start) % unit.bytes === 0 && hasAscii(chunk, at, newline, unit)) return at;
  }
  return -1;
};

/** Returns the end of a line without its line end, of which `stop` is the first unit or, before a `\n`, the second one. */
const endOfText = (chunk: Uint8Array, start: number, stop: number, unit: CodeUnit): number => {
  const before = stop - unit.bytes;
  return before >= start && hasAscii(chunk, before, carriageReturn, unit) ? before : stop;
};

/** Returns where the NULs end that begin at `start`. */
const endOfNuls = (chunk: Uint8Array, start: number, unit: CodeUnit): number => {
  let end = start;
  while (hasAscii(chunk, end, 0, unit)) end += unit.bytes;
  return end;
};

/** Reports whether an ASCII character begins at `at`. */
const hasAscii = (chunk: Uint8Array, at: number, character: number, unit: CodeUnit): boolean =>
  chunk[at + unit.asciiAt] === character &&
  (unit.bytes === 1 || chunk[at + 1 - unit.asciiAt] === 0);

/** Reports whether what follows the lines of a read is a hole, which nothing continues over. */
export const endsAtHole = (chunk: Buffer, { next }: Lines, unit: CodeUnit): boolean =>
  hasAscii(chunk, next, 0, unit);
