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
   * Stores the remaining lines, also an incomplete last one. Deletes the checkpoint, because the file will not be read again, and stores `extra`
   * in the same transaction.
   */
  finish(signal: AbortSignal, extra?: readonly Checkpoint[]): Promise<void>;
  /** Reports whether another open file is a copy of this one: of the part that was read, or of its current content. */
  isSameFile(other: { file: FileHandle; stat: Pick<Stats, "size"> }): Promise<boolean>;
  /** Monotonic time of the last detected change. */
  readonly changedAt: number;
  close(): Promise<void>;
}

/** The state of a file before it was truncated. */
export interface Truncation {
  readonly key: string;
  readonly position: Position;
  /** The known number of bytes after the position; null if unknown, as after a stop. */
  readonly unreadBytes: number | null;
  /** Where its reading continues. */
  readonly restart: Position;
  /** When the file was last changed. */
  readonly changedMs: number;
}

/** Handles rotation of a tailed file. Both functions return the file's next position, which they have stored. */
export interface TailRotation {
  truncated(truncation: Truncation, signal: AbortSignal): Promise<Position>;
  /** Called when a file of which nothing was read has changed: it may have been truncated, with or without a copy. */
  unread(
    unread: Pick<Truncation, "key" | "position"> & { file: FileHandle; lostBytes: number },
    signal: AbortSignal,
  ): Promise<Position>;
}

/** Less than the smallest queue, which would always drop a larger batch. */
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

  /** The file's size at the last check. */
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
    // After the read, because the file may have been rewritten since the last check.
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
          // The next step checks again, even if the file does not change.
          seen = undefined;
          throw error;
        });
      }
      if (exhausted) return false;
      const stored = await store(false, signal);
      exhausted = !stored;
      return stored;
    },
    finish: async (signal, extra = []) => {
      while (await store(true, signal));
      await append([], {
        checkpoints: [{ source: checkpointSource, key, value: null }, ...extra],
        signal,
      });
    },
    isSameFile: async (other) =>
      (await continues(other, position)) || (await hasSameStart(file, other.file)),
    close: () => file.close(),
  };
};
