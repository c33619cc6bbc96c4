import type { SourceDependencies } from "../source.ts";
import type { Charset, Encoding } from "./charset.ts";
import type { Multiline } from "./multiline.ts";
import { findBehindNuls } from "./nul-holes.ts";
import { checkpointOf, headOf, type Position, printBytesMax, startsWith } from "./position.ts";
import {
  batchOf,
  createRecordReader,
  positionAfter,
  startOfText,
  type TailOptions,
} from "./record-reader.ts";
import type { ReadUntil } from "./records.ts";
import type { FileStat, LogFile } from "./source-files.ts";

/** The size of the buffer of a read: some thousand lines, after the bytes that identify the position. */
export const tailReadBytes = 256 * 1024;

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
export type TailReader = ReturnType<typeof createTailReader>;

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

/** Creates the reader of the files of a source. */
export const createTailReader = (
  options: TailOptions,
  dependencies: Pick<SourceDependencies, "append" | "clock" | "log">,
  reports: TailReports,
) => {
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
    await append([], { checkpoints: [checkpointOf(tail.key, moved)], signal });
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
    await append(batch, { checkpoints: [checkpointOf(key, moved)], signal }).catch(
      (error: unknown) => {
        tail.ahead = position;
        throw error;
      },
    );
    if (invalidCharacters > 0) reports.replaced(invalidCharacters);
    if (found.nulBytes > 0) reports.skipped(path, found.nulBytes);
    if (found.container) reports.unparsed(found.container.unparsed);
    tail.position = moved;
    tail.size = Math.max(tail.size, moved.size ?? 0);
    return "stored";
  };

  return {
    /** Follows a file under its key from `start` on. */
    open: ({ key, file }: Pick<Tail, "key" | "file">, start: Position): Tail => ({
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
    /** Reads the size of a file again. Returns whether the saved position does not know it. */
    refreshSize: async (tail: Tail) => {
      await refreshStat(tail);
      tail.size = Math.max(tail.size, tail.seen?.size ?? 0);
      return tail.size > (tail.position.size ?? 0);
    },
    /** Returns the checkpoint of the position, with the size that was last seen. */
    checkpoint: (tail: Tail) => {
      moveTo(tail, { ...tail.position, size: tail.size });
      return checkpointOf(tail.key, tail.position);
    },
    /** Reads and stores the next lines; false if there was nothing to read. */
    step: async (tail: Tail, buffer: Buffer, signal: AbortSignal) => {
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
    /** Stores the remaining lines, also an incomplete last one. False if the file has changed, so that it has not ended. */
    finish: async (tail: Tail, buffer: Buffer, signal: AbortSignal) => {
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

const moveTo = (tail: Tail, position: Position) => {
  tail.position = position;
  tail.ahead = position;
};
