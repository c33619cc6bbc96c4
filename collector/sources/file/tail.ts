import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { batchLines, measureLineOverhead } from "#collector/queue/line-batch.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import type { SourceDependencies } from "../source.ts";
import { readLines } from "./lines.ts";
import {
  continues,
  fileKey,
  hasSameHead,
  hasSameStart,
  type Position,
  positionAt,
  positionIn,
  savePosition,
} from "./position.ts";

/**
 * Follows one open file. Invariants:
 * - `position` advances only after the lines before it are stored, in one transaction with its checkpoint. A crash or a rejected append
 *   therefore neither repeats nor skips a line.
 * - It follows the open file, not its name: a renamed or deleted file is read to its end.
 */
export interface Tail {
  readonly key: string;
  readonly path: string;
  readonly position: Position;
  /** Reads and stores the next lines; false if there was nothing to read. */
  step(signal: AbortSignal): Promise<boolean>;
  /**
   * Stores the remaining lines, also an incomplete last one, and deletes the checkpoint: the file will not be read again. Stores `more`
   * with that.
   */
  finish(signal: AbortSignal, more?: readonly Checkpoint[]): Promise<void>;
  /** Whether another open file is a copy of this one: of what was read from it, or of what it has now. */
  isSameFile(other: { file: FileHandle; stat: Pick<Stats, "size"> }): Promise<boolean>;
  /** Monotonic time of the last detected change. */
  readonly changedAt: number;
  close(): Promise<void>;
}

/** The state of a file before it was truncated. */
export interface Truncation {
  readonly key: string;
  readonly position: Position;
  /** Bytes behind the position that it is known to have had; null if nothing is known, as after a stop. */
  readonly unreadBytes: number | null;
  /** Where its reading continues. */
  readonly restart: Position;
  /** When the file was last changed. */
  readonly changedMs: number;
}

/** Handles rotation of a tailed file. Both functions return the position that they have stored. */
export interface TailRotation {
  truncated(truncation: Truncation, signal: AbortSignal): Promise<Position>;
  /** Called when a file has changed of which nothing was read: it may have been truncated, with and without its copy, and not shown it. */
  unread(
    unread: Pick<Truncation, "key" | "position"> & { file: FileHandle; lostBytes: number },
    signal: AbortSignal,
  ): Promise<Position>;
}

/** Smaller than the smallest queue: a batch larger than the queue would always be dropped. */
const batchBytesMax = 512 * 1024;

/** Follows `file` from `start` on. Uses `buffer` only while a call is running. */
export const createTail = (
  {
    name: source,
    checkpointSource,
    buffer,
  }: { name: string; checkpointSource: string; buffer: Buffer },
  file: FileHandle,
  stat: { dev: number; ino: number },
  start: Position,
  { append, clock, log }: Pick<SourceDependencies, "append" | "clock" | "log">,
  rotation: TailRotation,
): Tail => {
  const key = fileKey(stat);
  const { path } = start;
  let position = start;
  let seen: Pick<Stats, "size" | "mtimeMs"> | undefined;
  let exhausted = false;
  let changedAt = clock.monotonic();

  const lineOverheadBytes = measureLineOverhead({ source, path, observedAtMs: clock.now() });

  /** The size when the file last had the head of the position. */
  let sizeMax = start.offset;

  const restartFile = async (signal: AbortSignal) => {
    log.info({ source, path }, "the file was truncated; reading it from its start");
    const restart = await positionAt(file, position, 0);
    const unreadBytes = Math.max(0, sizeMax - position.offset);
    const changedMs = seen?.mtimeMs ?? 0;
    position = await rotation.truncated({ key, position, unreadBytes, restart, changedMs }, signal);
    sizeMax = 0;
  };

  const store = async (final: boolean, signal: AbortSignal): Promise<boolean> => {
    let bytes = 0;
    const admits = (length: number): boolean => {
      bytes += lineOverheadBytes + length;
      return bytes <= batchBytesMax;
    };
    const observedAtMs = clock.now();
    const { offset } = position;
    const { bounds, partial, next, chunk } = await readLines(file, offset, {
      final,
      admits,
      buffer,
    });
    if (bounds.length === 0) return false;
    const moved =
      position.offset === 0
        ? positionIn(chunk, position, next)
        : await positionAt(file, position, next, position);
    // After the read: a file that was rewritten since the last check must not be continued from the old offset.
    if (position.offset > 0 && !(await hasSameHead(file, position))) {
      await restartFile(signal);
      return true;
    }
    const lines = batchLines({
      source,
      path,
      observedAtMs,
      buffer: chunk,
      offset,
      bounds,
      partial,
    });
    await append(lines, {
      checkpoints: [{ source: checkpointSource, key, value: savePosition(moved) }],
      signal,
    });
    position = moved;
    return true;
  };

  /** Restarts a file that was truncated or rewritten (copytruncate). */
  const detectTruncation = async (size: number, signal: AbortSignal): Promise<void> => {
    if (size < position.offset || !(await hasSameHead(file, position)))
      return await restartFile(signal);
    if (position.offset === 0) {
      const lostBytes = size < sizeMax ? sizeMax : 0;
      position = await rotation.unread({ key, position, file, lostBytes }, signal);
    }
    sizeMax = size;
  };

  return {
    key,
    path,
    get position() {
      return position;
    },
    get changedAt() {
      return changedAt;
    },
    step: async (signal) => {
      const { size, mtimeMs } = await file.stat();
      const changed = seen === undefined || seen.size !== size || seen.mtimeMs !== mtimeMs;
      if (changed) {
        if (seen !== undefined) changedAt = clock.monotonic();
        seen = { size, mtimeMs };
        exhausted = false;
        await detectTruncation(size, signal).catch((error: unknown) => {
          // Checked again with the next step, also if the file does not change any more.
          seen = undefined;
          throw error;
        });
      }
      if (exhausted) return false;
      const stored = await store(false, signal);
      exhausted = !stored;
      return stored;
    },
    finish: async (signal, more = []) => {
      while (await store(true, signal));
      await append([], {
        checkpoints: [{ source: checkpointSource, key, value: null }, ...more],
        signal,
      });
    },
    isSameFile: async (other) =>
      (await continues(other, position)) || (await hasSameStart(file, other.file)),
    close: () => file.close(),
  };
};
