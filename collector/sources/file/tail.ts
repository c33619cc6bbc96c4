import { batchLines, measureLineOverhead } from "#collector/queue/line-batch.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import type { SourceDependencies } from "../source.ts";
import { findLines, type Lines, lineBytesMax } from "./lines.ts";
import {
  hasPrint,
  headOf,
  noPrint,
  type Position,
  printBytesMax,
  printOf,
  savePosition,
  startsWith,
} from "./position.ts";
import type { FileStat, LogFile } from "./source-files.ts";

/** The source of the checkpoints of files. All `file` sources share it, so that a file that moves from one to another is not read twice. */
export const fileCheckpoints = "file";

/** The size of the buffer of a read: some thousand lines, after the bytes that identify the position. */
export const tailReadBytes = 256 * 1024;
/** Less than the smallest queue, which would always drop a larger batch. */
const batchBytesMax = 512 * 1024;

/**
 * Follows one open file. Invariants:
 * - `position` advances only after the lines before it are stored, in one transaction with its checkpoint. A crash or a rejected append
 *   therefore neither repeats nor skips a line.
 * - It follows the open file, not its name: a renamed or deleted file is read to its end.
 * - Each read begins with the bytes before the position: what follows them is read only if they are still there.
 */
export interface Tail {
  readonly key: string;
  readonly path: string;
  readonly file: LogFile;
  readonly position: Position;
  /** The position behind the lines that are being stored. */
  readonly ahead: Position;
  /** Its size when it was last looked at. */
  readonly size: number;
  /** Whether the last step found nothing to read. */
  readonly isExhausted: boolean;
  /** Monotonic time of the last detected change. */
  readonly changedAt: number;
  /** Looks at the size again. Returns whether the saved position does not know it. */
  look(): Promise<boolean>;
  /** Returns the checkpoint of the position, with the size that was last seen. */
  checkpoint(): Checkpoint;
  /** Reads and stores the next lines; false if there was nothing to read. */
  step(buffer: Buffer, signal: AbortSignal): Promise<boolean>;
  /** Stores the remaining lines, also an incomplete last one, and then `checkpoints`. */
  finish(
    buffer: Buffer,
    checkpoints: () => readonly Checkpoint[],
    signal: AbortSignal,
  ): Promise<void>;
  close(): Promise<void>;
}

/** Where a tail reports what it found. */
export interface TailReports {
  /** The file was truncated or rewritten: `before` is where it was, `after` is stored by this call. The tail reads on once it resolves. */
  truncated(key: string, before: Position, after: Position, signal: AbortSignal): Promise<void>;
  /** So many NULs were skipped. */
  skipped(path: string, nulBytes: number): void;
}

/** The file of a tail. */
interface TailFile {
  /** The name of its source. */
  readonly source: string;
  readonly key: string;
  readonly file: LogFile;
  /** A last line without its end is stored after so long without a change, marked as one that may go on. */
  readonly partialAfterMs: number;
}

/** What ends a line: its end alone, the end of a file to which nobody writes, or that nothing has come for a while. */
type LineEnd = "newline" | "file" | "pause";

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

/** Returns the position after the first `next` bytes of a chunk, in which the position before is at `from`. */
const positionAfter = async (
  file: LogFile,
  { path, directory, offset, head, size = 0 }: Position,
  { chunk, from, next }: { chunk: Buffer; from: number; next: number },
): Promise<Position> => {
  const after = offset - from + next;
  const seenHead = offset === from ? printOf(chunk.subarray(0, printBytesMax)) : head;
  return {
    path,
    directory,
    offset: after,
    head: seenHead.bytes < Math.min(after, printBytesMax) ? await headOf(file, after) : seenHead,
    mark: printOf(chunk.subarray(Math.max(0, next - printBytesMax), next)),
    size: Math.max(after, size),
  };
};

/** Returns a function that admits lines until a batch is full. */
const createAdmission = (lineOverheadBytes: number) => {
  let bytes = 0;
  return (length: number): boolean => {
    bytes += lineOverheadBytes + length;
    return bytes <= batchBytesMax;
  };
};

/** Follows `file` under its `key` from `start` on. */
export const createTail = (
  { source, key, file, partialAfterMs }: TailFile,
  start: Position,
  { append, clock, log }: Pick<SourceDependencies, "append" | "clock" | "log">,
  reports: TailReports,
): Tail => {
  const { path } = start;
  let position = start;
  let ahead = start;
  let seen: FileStat | undefined;
  let size = Math.max(start.offset, start.size ?? 0);
  let isExhausted = false;
  let changedAt = clock.monotonic();
  const lineOverheadBytes = measureLineOverhead({ source, path, observedAtMs: clock.now() });

  const look = async () => {
    const stat = await file.restat();
    const isChanged =
      seen === undefined || seen.size !== stat.size || seen.mtimeMs !== stat.mtimeMs;
    if (isChanged) {
      if (seen !== undefined) changedAt = clock.monotonic();
      isExhausted = false;
      seen = stat;
    }
    const { offset, head } = position;
    // A copy of a file of which nothing was read is known by its first bytes.
    if (isChanged && offset === 0 && head.bytes < Math.min(stat.size, printBytesMax))
      if (head.bytes === 0 || (await startsWith(file, head)))
        position = { ...position, head: await headOf(file, stat.size) };
  };

  const restart = async (signal: AbortSignal) => {
    log.info({ source, path }, "the file was truncated; reading it from its start");
    const { directory } = position;
    const now = seen?.size ?? 0;
    const after = { path, directory, offset: 0, head: await headOf(file, now), size: now };
    await reports.truncated(key, { ...position, size }, after, signal);
    position = after;
    ahead = after;
    size = now;
  };

  const save = (moved: Position): Checkpoint => ({
    source: fileCheckpoints,
    key,
    value: savePosition(moved),
  });

  const batchOf = (chunk: Buffer, from: number, lines: Lines) =>
    batchLines({
      source,
      path,
      observedAtMs: clock.now(),
      buffer: chunk,
      offset: position.offset - from,
      bounds: lines.bounds,
      partial: lines.partial,
    });

  /** After a pause, all that is left is a line without its end. */
  const endOfLine = (): LineEnd =>
    isExhausted && size > position.offset && clock.monotonic() - changedAt >= partialAfterMs
      ? "pause"
      : "newline";

  /** Reads and stores the next lines; "truncated" if the file is another one now. */
  const store = async (
    buffer: Buffer,
    end: LineEnd,
    signal: AbortSignal,
  ): Promise<"stored" | "nothing" | "truncated"> => {
    const read = await readChunk(file, position, buffer);
    if (read === null) return "truncated";
    const { from } = read;
    let { chunk } = read;
    const isLongLine = chunk.length === buffer.length && chunk.indexOf(0x0a, from) === -1;
    // With room for a line end of two bytes, `\r\n`.
    if (isLongLine)
      chunk = await file.read(Buffer.allocUnsafe(from + lineBytesMax + 2), position.offset - from);
    const found = findLines(chunk, from, {
      final: end !== "newline",
      admits: createAdmission(lineOverheadBytes),
    });
    const lines = { ...found, partial: found.partial || end === "pause" };
    if (lines.next === from) return "nothing";
    const moved = await positionAfter(
      file,
      { ...position, size: seen?.size ?? 0 },
      { chunk, from, next: lines.next },
    );
    ahead = moved;
    await append(batchOf(chunk, from, lines), { checkpoints: [save(moved)], signal }).catch(
      (error: unknown) => {
        ahead = position;
        throw error;
      },
    );
    if (lines.nulBytes > 0) reports.skipped(path, lines.nulBytes);
    position = moved;
    size = Math.max(size, moved.size ?? 0);
    return "stored";
  };

  return {
    key,
    path,
    file,
    get position() {
      return position;
    },
    get ahead() {
      return ahead.offset > position.offset ? ahead : position;
    },
    get size() {
      return size;
    },
    get isExhausted() {
      return isExhausted;
    },
    get changedAt() {
      return changedAt;
    },
    look: async () => {
      await look();
      size = Math.max(size, seen?.size ?? 0);
      return size > (position.size ?? 0);
    },
    checkpoint: () => {
      position = { ...position, size };
      return save(position);
    },
    step: async (buffer, signal) => {
      await look();
      if (isExhausted && endOfLine() === "newline") return false;
      const now = seen?.size ?? 0;
      const outcome =
        now < position.offset || (now < size && position.offset === 0)
          ? "truncated"
          : await store(buffer, endOfLine(), signal);
      if (outcome === "truncated") {
        // Its next look is a change, also if it stays as it is.
        await restart(signal).catch((error: unknown) => {
          seen = undefined;
          throw error;
        });
        return true;
      }
      size = now;
      isExhausted = outcome === "nothing";
      return outcome === "stored";
    },
    finish: async (buffer, checkpoints, signal) => {
      while ((await store(buffer, "file", signal)) === "stored");
      await append([], { checkpoints: checkpoints(), signal });
    },
    close: () => file.close(),
  };
};
