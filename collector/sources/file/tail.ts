import { batchLines, measureLineOverhead } from "#collector/queue/line-batch.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
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
import {
  hasPrint,
  headOf,
  markAt,
  noPrint,
  type Position,
  printBytesMax,
  printOf,
  savePosition,
  startsWith,
} from "./position.ts";
import { findRecords, type ReadUntil } from "./records.ts";
import type { FileStat, LogFile } from "./source-files.ts";

/** The source of the checkpoints of files. All `file` sources share it, so that a file that moves from one to another is not read twice. */
export const fileCheckpoints = "file";

/** The size of the buffer of a read: some thousand lines, after the bytes that identify the position. */
export const tailReadBytes = 256 * 1024;

/** Less than the smallest queue, which would always drop a larger batch. */
const batchBytesMax = 512 * 1024;

/**
 * A followed file: plain data, since a host may have thousands. Only its reader changes what is not read-only. Invariants:
 * - `position` advances only after the lines before it are stored, in one transaction with its checkpoint. A crash or a rejected append
 *   therefore neither repeats nor skips a line.
 * - It follows the open file, not its name: a renamed or deleted file is read to its end.
 * - Each read begins with the bytes before the position: what follows them is read only if they are still there.
 */
export interface Tail {
  readonly key: string;
  readonly path: string;
  readonly file: LogFile;
  position: Position;
  /** The position behind the lines that are being stored. */
  ahead: Position;
  /** Its size when it was last looked at. */
  size: number;
  seen: FileStat | undefined;
  /** Whether the last step found nothing to read. */
  isExhausted: boolean;
  /** Monotonic time of the last detected change. */
  changedAt: number;
  /** How it is read as text, once its first bytes were seen. */
  charset: Charset | undefined;
  /** For the pieces of a long record; kept from one to the next. */
  large: Buffer | undefined;
  /** The order of UTF-16 that the file seems to have, though the config says otherwise. */
  suspected: Encoding | undefined;
  /** Up to where there is nothing but NULs behind the position. */
  nulsUntil: number;
}

/** Reads the followed files of a source. */
export interface TailReader {
  /** Follows a file under its key from `start` on. */
  open(file: Pick<Tail, "key" | "file">, start: Position): Tail;
  /** Reads the size of a file again. Returns whether the saved position does not know it. */
  refreshSize(tail: Tail): Promise<boolean>;
  /** Returns the checkpoint of the position, with the size that was last seen. */
  checkpoint(tail: Tail): Checkpoint;
  /** Reads and stores the next lines; false if there was nothing to read. */
  step(tail: Tail, buffer: Buffer, signal: AbortSignal): Promise<boolean>;
  /** Stores the remaining lines, also an incomplete last one. False if the file has changed, so that it has not ended. */
  finish(tail: Tail, buffer: Buffer, signal: AbortSignal): Promise<boolean>;
}

/** Where a reader reports what it found. */
export interface TailReports {
  /** The file was truncated or rewritten: `before` is where it was, `after` is stored by this call. The tail reads on once it resolves. */
  truncated(key: string, before: Position, after: Position, signal: AbortSignal): Promise<void>;
  /** So many NULs were skipped. */
  skipped(path: string, nulBytes: number): void;
  /** So many U+FFFD were stored for invalid bytes. */
  replaced(characters: number): void;
  /** So many lines of a container's log are in no format of one. */
  unparsed(lines: number): void;
}

/** How the files of a source are read. */
interface TailOptions {
  /** The name of the source. */
  readonly source: string;
  /** A last line without its end is stored after so long without a change, marked as one that may go on. */
  readonly partialAfterMs: number;
  readonly encoding: Encoding;
  /** How lines are joined to records; undefined if each is one. */
  readonly multiline: Promise<Multiline | undefined>;
  /** `containers`: they are logs of containers. */
  readonly preset?: "containers" | undefined;
}

/** So many bytes of a file tell whether it has a byte order mark. */
const markBytesMax = 4;

/** A line end of UTF-16, `\r\n`. */
const lineEndBytesMax = 4;

/** So many NULs are read at once: others have their turn meanwhile. */
const nulBytesMax = 64 * 1024 * 1024;

/** How a file is read whose lines are records. */
const lineLog = { attributesOf: () => ({}), find: findRecords, attributesBytesMax: 0 } as const;

/** Creates the reader of the files of a source. */
export const createTailReader = (
  options: TailOptions,
  dependencies: Pick<SourceDependencies, "append" | "clock" | "log">,
  reports: TailReports,
): TailReader => {
  const { source, partialAfterMs, multiline: joining } = options;
  const { append, clock, log } = dependencies;
  const readRecords = createRecordReader(options, dependencies);

  const refreshStat = async (tail: Tail) => {
    const { file, seen, position } = tail;
    const stat = await file.restat();
    if (seen !== undefined && seen.size === stat.size && seen.mtimeMs === stat.mtimeMs) return;
    if (seen !== undefined) tail.changedAt = clock.monotonic();
    tail.isExhausted = false;
    tail.seen = stat;
    const { offset, head } = position;
    // A copy of a file of which nothing was read is known by its first bytes.
    if (offset === 0 && head.bytes < Math.min(stat.size, printBytesMax)) {
      const isSame = head.bytes === 0 || (await startsWith(file, head));
      if (isSame) moveTo(tail, { ...position, head: await headOf(file, stat.size) });
    }
  };

  const restart = async (tail: Tail, signal: AbortSignal) => {
    const { key, path, file, position, size, seen } = tail;
    log.info({ source, path }, "the file was truncated; reading it from its start");
    const { directory } = position;
    const now = seen?.size ?? 0;
    const after = { path, directory, offset: 0, head: await headOf(file, now), size: now };
    await reports.truncated(key, { ...position, size }, after, signal);
    moveTo(tail, after);
    tail.size = now;
    tail.charset = undefined;
    tail.nulsUntil = 0;
  };

  /** After a pause, all that is left is a record that may go on, and then a line without its end. */
  const readUntil = (
    { isExhausted, size, position, changedAt }: Tail,
    multiline: Multiline | undefined,
  ): ReadUntil => {
    if (!isExhausted || size <= position.offset) return "complete";
    const pauseMs = clock.monotonic() - changedAt;
    const { timeoutMs = 0 } = multiline ?? {};
    if (pauseMs >= Math.max(partialAfterMs, timeoutMs)) return "pause";
    return multiline !== undefined && pauseMs >= timeoutMs ? "joined" : "complete";
  };

  const skipNuls = async (
    tail: Tail,
    buffer: Buffer,
    until: ReadUntil,
    signal: AbortSignal,
  ): Promise<"stored" | "nothing"> => {
    const moved = await findBehindNuls(tail, buffer, until);
    if (typeof moved === "string") return moved === "more" ? "stored" : "nothing";
    await append([], { checkpoints: [saveAt(tail.key, moved)], signal });
    reports.skipped(tail.path, moved.offset - tail.position.offset);
    moveTo(tail, moved);
    return "stored";
  };

  /** Reads and stores the next records; "truncated" if the file is another one now. */
  const store = async (
    tail: Tail,
    buffer: Buffer,
    until: ReadUntil,
    signal: AbortSignal,
  ): Promise<"stored" | "nothing" | "truncated"> => {
    const { key, path, file, position, seen } = tail;
    const read = await readRecords(tail, buffer, until);
    if (read === null) return "truncated";
    const { chunk, from, found, text } = read;
    const start = startOfText(position, from, text);
    if (found.next === start && found.bounds.length === 0)
      return chunk[start] === 0 ? await skipNuls(tail, buffer, until, signal) : "nothing";
    const moved = await positionAfter(file, { ...position, size: seen?.size ?? 0 }, read);
    tail.ahead = moved;
    const { batch, invalidCharacters } = batchOf(position, read, { source, at: clock.now() });
    await append(batch, { checkpoints: [saveAt(key, moved)], signal }).catch((error: unknown) => {
      tail.ahead = position;
      throw error;
    });
    if (invalidCharacters > 0) reports.replaced(invalidCharacters);
    if (found.nulBytes > 0) reports.skipped(path, found.nulBytes);
    if (found.container) reports.unparsed(found.container.unparsed);
    tail.position = moved;
    tail.size = Math.max(tail.size, moved.size ?? 0);
    return "stored";
  };

  return {
    open: ({ key, file }, start) => ({
      key,
      path: start.path,
      file,
      position: start,
      ahead: start,
      size: Math.max(start.offset, start.size ?? 0),
      seen: undefined,
      isExhausted: false,
      changedAt: clock.monotonic(),
      charset: undefined,
      large: undefined,
      suspected: undefined,
      nulsUntil: 0,
    }),
    refreshSize: async (tail) => {
      await refreshStat(tail);
      tail.size = Math.max(tail.size, tail.seen?.size ?? 0);
      return tail.size > (tail.position.size ?? 0);
    },
    checkpoint: (tail) => {
      moveTo(tail, { ...tail.position, size: tail.size });
      return saveAt(tail.key, tail.position);
    },
    step: async (tail, buffer, signal) => {
      await refreshStat(tail);
      const until = readUntil(tail, await joining);
      if (tail.isExhausted && until === "complete") return false;
      const now = tail.seen?.size ?? 0;
      const { offset } = tail.position;
      const outcome =
        now < offset || (now < tail.size && offset === 0)
          ? "truncated"
          : await store(tail, buffer, until, signal);
      if (outcome === "truncated") {
        // Its next look is a change, also if it stays as it is.
        await restart(tail, signal).catch((error: unknown) => {
          tail.seen = undefined;
          throw error;
        });
        return true;
      }
      tail.size = now;
      tail.isExhausted = outcome === "nothing";
      return outcome === "stored";
    },
    finish: async (tail, buffer, signal) => {
      await refreshStat(tail);
      if (!tail.isExhausted) return false;
      let outcome = await store(tail, buffer, "file", signal);
      while (outcome === "stored") outcome = await store(tail, buffer, "file", signal);
      // Its next look is a change, and the next step begins anew.
      if (outcome === "truncated") tail.seen = undefined;
      return outcome === "nothing";
    },
  };
};

/** Creates the function that reads the next records of a file; null if the bytes before its position have changed. */
const createRecordReader = (
  { source, encoding, multiline: joining, preset, partialAfterMs }: TailOptions,
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
    const shared = format.attributesOf(path);
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
const startOfText = ({ offset }: Position, from: number, { markBytes, unit }: Charset): number =>
  offset === 0 ? markBytes : from + (offset % unit.bytes);

/** The records of a chunk, in which the position before is at `from`. */
interface FoundRecords {
  chunk: Buffer;
  from: number;
  found: Lines;
  text: Charset;
  shared: Readonly<Record<string, string>>;
}

/** Returns the position after what was found. */
const positionAfter = async (
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
const batchOf = (
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

/**
 * Returns the position behind NULs that no chunk holds, once text follows them: a writer may have reserved them. "more" if it has to look on.
 */
const findBehindNuls = async (
  tail: Tail,
  buffer: Buffer,
  until: ReadUntil,
): Promise<Position | "more" | "nothing"> => {
  const { file, position, charset } = tail;
  const { offset } = position;
  const { at, before } = await endOfNuls(file, Math.max(offset, tail.nulsUntil), buffer);
  tail.nulsUntil = before === "more" ? at : 0;
  if (before === "more") return before;
  const end = at - (at % (charset?.unit.bytes ?? 1));
  if (end === offset || (before === "end" && until !== "file")) return "nothing";
  const head = await headOf(file, end);
  return { ...position, offset: end, head, mark: await markAt(file, end) };
};

/** Returns where the NULs end that begin at an offset, or up to where they were read, and what is there. */
const endOfNuls = async (
  file: LogFile,
  start: number,
  buffer: Buffer,
): Promise<{ at: number; before: "text" | "end" | "more" }> => {
  const nuls = Buffer.alloc(buffer.length);
  for (let at = start; at - start < nulBytesMax; at += nuls.length) {
    const chunk = await file.read(buffer, at);
    const isText = !chunk.equals(nuls.subarray(0, chunk.length));
    if (isText) return { at: at + chunk.findIndex((byte) => byte !== 0), before: "text" };
    if (chunk.length < nuls.length) return { at: at + chunk.length, before: "end" };
  }
  return { at: start + nulBytesMax, before: "more" };
};

const moveTo = (tail: Tail, position: Position) => {
  tail.position = position;
  tail.ahead = position;
};

const saveAt = (key: string, position: Position): Checkpoint => ({
  source: fileCheckpoints,
  key,
  value: savePosition(position),
});
