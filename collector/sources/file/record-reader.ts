/* Reads the next records of a file, and makes of them what the queue stores: a batch, and the position behind it. */
import { batchLines, measureLineOverhead } from "#collector/queue/line-batch.ts";
import type { SourceDependencies } from "../source.ts";
import {
  type Charset,
  createCharset,
  decodeFileLines,
  type Encoding,
  suspectUtf16,
} from "./charset.ts";
import { containerLog } from "./containers.ts";
import { type Lines, lineBytesMax } from "./lines.ts";
import type { Multiline } from "./multiline.ts";
import type { PodLabels } from "./pod-labels.ts";
import { hasPrint, headOf, noPrint, type Position, printBytesMax, printOf } from "./position.ts";
import { findRecords, type ReadUntil } from "./records.ts";
import type { LogFile } from "./source-files.ts";
import type { Tail } from "./tail.ts";

/** How the files of a source are read. */
export interface TailOptions {
  /** The name of the source. */
  readonly source: string;
  /** A last line without its end is stored after so long without a change, marked as one that may go on. */
  readonly partialAfterMs: number;
  readonly encoding: Encoding;
  /** How lines are joined to records; undefined if each is one. */
  readonly multiline: Promise<Multiline | undefined>;
  /** `containers`: they are logs of containers. */
  readonly preset?: "containers" | undefined;
  /** Adds the labels of a container's pod. */
  readonly podLabels?: PodLabels | undefined;
}

/** Less than the smallest queue, which would always drop a larger batch. */
const batchBytesMax = 512 * 1024;

/** So many bytes of a file tell whether it has a byte order mark. */
const markBytesMax = 4;

/** A line end of UTF-16, `\r\n`. */
const lineEndBytesMax = 4;

/** How a file is read whose lines are records. */
const lineLog = { attributesOf: () => ({}), find: findRecords, attributesBytesMax: 0 } as const;

/** Creates the function that reads the next records of a file; null if the bytes before its position have changed. */
export const createRecordReader = (
  { source, encoding, multiline: joining, preset, podLabels, partialAfterMs }: TailOptions,
  { clock, log }: Pick<SourceDependencies, "clock" | "log">,
) => {
  const format = preset === "containers" ? containerLog : lineLog;
  /** Returns how a file is read as text, which its first bytes may show. They are in `chunk` if that begins with the file. */
  const openCharset = async (tail: Tail, chunk: Buffer): Promise<Charset> => {
    const { path, file, position } = tail;
    const first =
      position.offset === 0
        ? chunk.subarray(0, printBytesMax)
        : await file.read(Buffer.allocUnsafe(printBytesMax), 0);
    const opened = createCharset(encoding, first);
    if (first.length < markBytesMax) return opened;
    tail.charset = opened;
    const suspected = suspectUtf16(encoding, first);
    tail.suspected = suspected;
    if (suspected !== undefined)
      log.warn({ source, path }, `the file looks like UTF-16; set \`encoding: ${suspected}\``);
    return opened;
  };

  /** Reads more than the buffer holds if that has no whole record. */
  return async (tail: Tail, buffer: Buffer, until: ReadUntil) => {
    const { path, file, position } = tail;
    const multiline = await joining;
    const ofPath = format.attributesOf(path);
    const shared = (await podLabels?.addTo(ofPath)) ?? ofPath;
    const lineOverheadBytes =
      measureLineOverhead({ source, path, observedAtMs: clock.now(), shared }) +
      format.attributesBytesMax;
    for (let into = buffer, isLargest = false; ; isLargest = true) {
      const read = await readChunk(file, position, into);
      if (read === null) return null;
      const { chunk, from } = read;
      const text = tail.charset ?? (await openCharset(tail, chunk));
      const isFull = chunk.length === into.length;
      const { part, streams = {} } = position;
      const found = format.find(chunk, startOfText(position, from, text), {
        charset: text,
        multiline,
        until,
        isFull,
        isLargest,
        admits: createAdmission(lineOverheadBytes, text.growth, position),
        base: position.offset - from,
        part,
        streams,
        partialAfterMs,
      });
      if (found.bounds.length > 0 || !isFull || isLargest) {
        if (!found.partial) tail.large = undefined;
        return { chunk, from, found, text, shared };
      }
      tail.large ??= Buffer.allocUnsafeSlow(printBytesMax + lineBytesMax + lineEndBytesMax);
      into = tail.large;
    }
  };
};

/** Returns a function that admits lines until a batch is full. */
const createAdmission = (lineOverheadBytes: number, growth: number, { part }: Position) => {
  let bytes = 0;
  return (length: number): boolean => {
    bytes += lineOverheadBytes + growth * length;
    // The last piece of a line has a number, as the others have.
    return bytes <= batchBytesMax && part === undefined;
  };
};

/** Reads from a position on; null if the bytes before it have changed. The lines begin at `from` in the chunk. */
const readChunk = async (
  file: LogFile,
  { offset, mark = noPrint, head }: Position,
  buffer: Buffer,
) => {
  const from = Math.min(mark.bytes, offset);
  const chunk = await file.read(buffer, offset - from);
  const isSame =
    offset === 0
      ? hasPrint(chunk.subarray(0, head.bytes), head)
      : hasPrint(chunk.subarray(0, from), mark);
  return isSame ? { chunk, from } : null;
};

/** Returns where the text begins in a chunk: behind the byte order mark, and at a whole unit of the encoding. */
export const startOfText = (
  { offset }: Position,
  from: number,
  { markBytes, unit }: Charset,
): number => (offset === 0 ? markBytes : from + (offset % unit.bytes));

/** The records of a chunk, in which the position before is at `from`. */
interface FoundRecords {
  chunk: Buffer;
  from: number;
  found: Lines;
  text: Charset;
  shared: Readonly<Record<string, string>>;
}

/** Returns the position after what was found. */
export const positionAfter = async (
  file: LogFile,
  { path, directory, offset, head, part = 1, size = 0, streams }: Position,
  { chunk, from, found }: FoundRecords,
): Promise<Position> => {
  const { next, partial, container } = found;
  const after = offset - from + next;
  const seenHead = offset === from ? printOf(chunk.subarray(0, printBytesMax)) : head;
  return {
    path,
    directory,
    offset: after,
    head: seenHead.bytes < Math.min(after, printBytesMax) ? await headOf(file, after) : seenHead,
    mark: printOf(chunk.subarray(Math.max(0, next - printBytesMax), next)),
    size: Math.max(after, size),
    ...(partial ? { part: part + 1 } : {}),
    streams: container?.streams ?? streams,
  };
};

/** Returns what was found in a chunk as a batch of the queue. */
export const batchOf = (
  { path, offset, part }: Position,
  { chunk, from, found, text, shared }: FoundRecords,
  { source, at }: { source: string; at: number },
) => {
  const { container } = found;
  const { invalidCharacters, ...decoded } = decodeFileLines(
    text,
    container?.content ?? chunk,
    found.bounds,
  );
  const batch = batchLines({
    ...decoded,
    ...(container && { starts: container.starts, attributes: container.attributes }),
    shared,
    source,
    path,
    observedAtMs: at,
    offset: offset - from,
    partial: found.partial,
    part: part ?? (found.partial ? 1 : undefined),
  });
  return { batch, invalidCharacters };
};
