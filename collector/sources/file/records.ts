import { type Charset, wholeLength } from "./charset.ts";
import { endsAtHole, findLines, type Lines } from "./lines.ts";
import { joinLines, type Multiline } from "./multiline.ts";

/**
 * Up to where records are read: complete ones; also one that lacks lines, since nothing has come for a while; also a line without its end; or
 * all, since nobody writes to the file.
 */
export type ReadUntil = "complete" | "joined" | "pause" | "file";

/** How the records of a chunk are found. */
export interface RecordOptions {
  readonly charset: Charset;
  /** How lines are joined; undefined if each is a record. */
  readonly multiline: Multiline | undefined;
  readonly until: ReadUntil;
  /** The file has more bytes after the chunk. */
  readonly isFull: boolean;
  /** Whether a larger chunk can be read of it. */
  readonly isLargest: boolean;
  /** Reports whether a record of this length still fits into the batch. */
  admits(length: number): boolean;
}

/** Finds the records of a chunk from `from` on, as `findLines` finds lines. Pieces of a line end with a whole character. */
export const findRecords = (chunk: Buffer, from: number, options: RecordOptions): Lines => {
  const { until, isFull } = options;
  if (until === "file" && !isFull) return joined(chunk, from, options, true);
  const complete = joined(chunk, from, options, false);
  if (until !== "pause" || isFull || complete.next > from) return complete;
  const rest = linesIn(chunk, from, options, true);
  return rest.bounds.length === 0 ? complete : toWhole(chunk, { ...rest, partial: true }, options);
};

const linesIn = (
  chunk: Buffer,
  from: number,
  { charset, multiline, admits }: RecordOptions,
  final: boolean,
): Lines => {
  const { unit } = charset;
  if (multiline === undefined)
    return findLines(chunk, from, { unit, final, stopsAtHole: false, admits });
  return findLines(chunk, from, { unit, final, stopsAtHole: true, admits: () => true });
};

/** Ends a piece of a line with a whole character. */
const toWhole = (chunk: Buffer, piece: Lines, { charset }: RecordOptions): Lines => {
  const [start = 0, end = 0] = piece.bounds;
  const next = start + wholeLength(charset, chunk.subarray(start, end));
  return { ...piece, bounds: next === start ? [] : [start, next], next };
};

const joined = (chunk: Buffer, from: number, options: RecordOptions, final: boolean): Lines => {
  const { charset, multiline, until, isFull, isLargest, admits } = options;
  const found = linesIn(chunk, from, options, final);
  if (found.partial) return toWhole(chunk, found, options);
  if (multiline === undefined) return found;
  return joinLines(found, {
    multiline,
    text: (start, end) => charset.text(chunk, start, end),
    cutAt: isFull && isLargest ? chunk.length : undefined,
    isLast: (until !== "complete" && !isFull) || endsAtHole(chunk, found, charset.unit),
    admits,
  });
};
