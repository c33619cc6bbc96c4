/*
 * Reads the logs of containers. Each line has a stream, a time and a piece of a text; the pieces of one stream are joined, and so are the lines
 * of one record. Streams are interleaved, so each has a position of its own: what one of them has after the unfinished record of another is
 * stored at once, and passed over when it is read again. Invariant: a read begins at the earliest position of all streams.
 */
import { encodeAttributes } from "#collector/queue/line-batch.ts";
import { containerOf, parseContainerLine } from "./container-lines.ts";
import { endsAtHole, findLines, type Lines } from "./lines.ts";
import { joinLines, type Multiline } from "./multiline.ts";
import type { StreamPositions } from "./position.ts";
import { findRecords, type RecordOptions } from "./records.ts";

/** How the records of a container's log are found. */
interface ContainerOptions extends RecordOptions {
  /** The offset of the chunk's first byte in the file. */
  readonly base: number;
  /** The number of the piece of a line of more than 1 MiB with which the read begins. */
  readonly part: number | undefined;
  /** How far each stream is stored. */
  readonly streams: StreamPositions;
  /** A piece is stored after its stream was silent for so long. */
  readonly partialAfterMs: number;
}

/** Finds the records of a chunk of a container's log from `from` on, as `findRecords` does those of other files. */
const findContainerRecords = (chunk: Buffer, from: number, options: ContainerOptions): Lines => {
  const { until, isFull } = options;
  const complete = recordsIn(chunk, from, options, until === "file" && !isFull);
  const isPaused = until === "pause" && !isFull;
  return isPaused && complete.bounds.length === 0 && complete.next === from
    ? recordsIn(chunk, from, options, true)
    : complete;
};

/** How a container's log is read: the attributes of its file, its records, and the most that the attributes of one take. */
export const containerLog = {
  attributesOf: containerOf,
  find: findContainerRecords,
  attributesBytesMax: 192,
} as const;

const recordsIn = (
  chunk: Buffer,
  from: number,
  options: ContainerOptions,
  isFinal: boolean,
): Lines => {
  const { charset, until, isFull, isLargest, base, part, streams } = options;
  const { multiline, partialAfterMs } = options;
  const { unit } = charset;
  const lines = findLines(chunk, from, {
    unit,
    final: isFinal,
    stopsAtHole: true,
    admits: () => true,
  });
  // A line of more than 1 MiB is stored as it stands.
  if (lines.partial || part !== undefined)
    return findRecords(chunk, from, { ...options, multiline: undefined });
  const isTorn = isFinal && until === "pause" && lines.next === chunk.length;
  const isStored = (stream: string, start: number) => base + start < (streams[stream]?.from ?? 0);
  const outputs = joinPieces(chunk, lines, isStored, isTorn);
  const isAtHole = endsAtHole(chunk, lines, unit);
  const endOf = (output: readonly OutputLine[]) => Date.parse(output.at(-1)?.endedAt ?? "");
  const latest = Math.max(...outputs.values().map(endOf).filter(Number.isFinite));
  const readStreams = (cutStream?: string) =>
    new Map(
      [...outputs].map(([stream, output]) => [
        stream,
        readStream(stream, layOut(output), {
          ...options,
          part: streams[stream]?.part,
          isLast:
            isAtHole ||
            (until !== "complete" && !isFull) ||
            latest - endOf(output) >= (multiline?.timeoutMs ?? 0),
          isLastPiece:
            isAtHole ||
            ((until === "pause" || until === "file") && !isFull) ||
            latest - endOf(output) >= partialAfterMs,
          isCut: stream === cutStream,
        }),
      ]),
    );
  const complete = readStreams();
  const result = found(complete, lines, options);
  if (result.bounds.length > 0 || !isFull || !isLargest) return result;
  // No chunk holds a whole record of the stream that keeps the others back: reads again, and cuts that one.
  const [stuck] = [...complete].find(([, { rest }]) => rest === result.next) ?? [];
  return stuck === undefined ? result : found(readStreams(stuck), lines, options);
};

/** A line as the container wrote it, or its beginning. */
interface OutputLine {
  /** Where its first piece is in the chunk. */
  readonly start: number;
  readonly time: string | undefined;
  readonly pieces: Buffer[];
  isWhole: boolean;
  /** When its last piece was written. */
  endedAt: string | undefined;
}

/** Joins the pieces of what is not stored of each stream. */
const joinPieces = (
  chunk: Buffer,
  { bounds }: Lines,
  isStored: (stream: string, start: number) => boolean,
  isTorn: boolean,
): Map<string, OutputLine[]> => {
  const streams = new Map<string, OutputLine[]>();
  for (let index = 0; index < bounds.length; index += 2) {
    const [start = 0, end = 0] = bounds.slice(index, index + 2);
    const isTornHere = isTorn && index === bounds.length - 2;
    const { stream, time, text, isPiece } = isTornHere
      ? { stream: "", time: undefined, text: chunk.subarray(start, end), isPiece: true }
      : parseContainerLine(chunk, start, end);
    if (isStored(stream, start)) continue;
    const lines = streams.get(stream) ?? [];
    streams.set(stream, lines);
    const before = lines.at(-1);
    const line =
      before?.isWhole === false
        ? before
        : { start, time, pieces: [], isWhole: false, endedAt: time };
    if (line !== before) lines.push(line);
    line.pieces.push(text);
    line.isWhole = !isPiece;
    line.endedAt = time;
  }
  return streams;
};

/** The lines of a stream one after the other in `content`, each with its bounds there. */
interface StreamContent {
  readonly lines: readonly OutputLine[];
  readonly bounds: readonly number[];
  readonly content: Buffer;
}

const newline = Buffer.from("\n");

const layOut = (lines: readonly OutputLine[]): StreamContent => {
  const bounds: number[] = [];
  let at = 0;
  for (const { pieces } of lines) {
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    bounds.push(at, at + length);
    at += length + newline.length;
  }
  return {
    lines,
    bounds,
    content: Buffer.concat(lines.flatMap(({ pieces }) => [...pieces, newline])),
  };
};

/** A record of a stream. */
interface ContainerRecord {
  readonly stream: string;
  readonly start: number;
  readonly time: string | undefined;
  readonly text: Buffer;
  readonly partial: boolean;
  /** Its number, if it is a piece. */
  readonly part: number | undefined;
  /** The stream's number before it. */
  readonly before: number | undefined;
}

/** The records of a stream that are to be stored, and where the rest of it begins in the chunk. */
interface StreamRead {
  readonly records: ContainerRecord[];
  readonly rest: number | undefined;
  readonly part: number | undefined;
}

/** Each line is a record. */
const single: Multiline = { maxLines: 1, timeoutMs: 0, endOf: (_, first) => first + 1 };

/** How the records of a stream are cut, and which of its last lines may be stored. */
interface StreamOptions extends Pick<ContainerOptions, "charset" | "multiline"> {
  readonly part: number | undefined;
  /** Whether nothing continues its last record, its last piece, or either, since no chunk holds more. */
  readonly isLast: boolean;
  readonly isLastPiece: boolean;
  readonly isCut: boolean;
}

const readStream = (
  stream: string,
  { lines, bounds, content }: StreamContent,
  { charset, multiline = single, isLast, isLastPiece, isCut, ...options }: StreamOptions,
): StreamRead => {
  const records: ContainerRecord[] = [];
  let before = options.part;
  const add = ({ start, time }: OutputLine, from: number, to: number, partial: boolean) => {
    const part = before ?? (partial ? 1 : undefined);
    records.push({ stream, start, time, text: content.subarray(from, to), partial, part, before });
    before = partial && part !== undefined ? part + 1 : undefined;
  };
  const whole = lines.at(-1)?.isWhole ? lines.length : lines.length - 1;
  const next = bounds[2 * whole] ?? content.length;
  const joined = joinLines(
    { bounds: bounds.slice(0, 2 * whole), partial: false, next, nulBytes: 0 },
    {
      multiline,
      text: (start, end) => charset.text(content, start, end),
      cutAt: isCut ? next : undefined,
      isLast,
      admits: () => true,
    },
  );
  const indexes = new Map(lines.map((_, index) => [bounds[2 * index] ?? 0, index]));
  const lineAt = (at: number) => lines[indexes.get(at) ?? lines.length];
  for (let index = 0; index < joined.bounds.length; index += 2) {
    const [from = 0, to = 0] = joined.bounds.slice(index, index + 2);
    const line = lineAt(from);
    if (line !== undefined) add(line, from, to, joined.partial);
  }
  const left = lineAt(joined.next);
  const isOpen = left?.isWhole === false;
  if (!left || !isOpen || !(isLastPiece || (isCut && records.length === 0)))
    return { records, rest: left?.start, part: before };
  add(left, joined.next, content.length - newline.length, true);
  return { records, rest: undefined, part: before };
};

const attributesOf = ({ stream, time, partial, part }: ContainerRecord): Buffer =>
  encodeAttributes({
    ...(stream === "" ? {} : { "log.iostream": stream }),
    ...(time === undefined ? {} : { "container.timestamp": time }),
    ...(partial ? { "file.partial": "true" } : {}),
    ...(part === undefined ? {} : { "file.part": `${part}` }),
  });

/** Returns what was read as the lines of a batch, in their order in the file, with the position of each stream. */
const found = (
  reads: ReadonlyMap<string, StreamRead>,
  { next: end, nulBytes }: Lines,
  { base, streams, admits }: ContainerOptions,
): Lines => {
  const all = [...reads.values()].flatMap((read) => read.records);
  all.sort((a, b) => a.start - b.start);
  const full = all.findIndex(({ text }, index) => !admits(text.length) && index > 0);
  const records = full === -1 ? all : all.slice(0, full);
  const left = Map.groupBy(all.slice(records.length), ({ stream }) => stream);
  const bounds: number[] = [];
  for (const { text } of records) {
    const at = bounds.at(-1) ?? 0;
    bounds.push(at, at + text.length);
  }
  const positions = new Map<string, StreamPositions[string]>();
  for (const stream of new Set([...Object.keys(streams), ...reads.keys()])) {
    const [first] = left.get(stream) ?? [];
    const { rest, part } = first
      ? { rest: first.start, part: first.before }
      : (reads.get(stream) ?? { rest: undefined, ...streams[stream] });
    const from = base + end;
    positions.set(stream, {
      from: rest === undefined ? Math.max(streams[stream]?.from ?? 0, from) : base + rest,
      ...(part === undefined ? {} : { part }),
    });
  }
  const next = Math.min(base + end, ...positions.values().map(({ from }) => from));
  const isAhead = ({ from, part }: StreamPositions[string]) => from > next || part !== undefined;
  return {
    bounds,
    partial: false,
    next: next - base,
    nulBytes,
    container: {
      content: Buffer.concat(records.map(({ text }) => text)),
      starts: records.map(({ start }) => start),
      attributes: records.map(attributesOf),
      unparsed: records.filter(({ stream }) => stream === "").length,
      streams: Object.fromEntries([...positions].filter(([, position]) => isAhead(position))),
    },
  };
};
