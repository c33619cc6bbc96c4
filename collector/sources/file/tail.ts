import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { type NewRecord, recordBytes } from "../../queue/record.ts";
import type { SourceDependencies } from "../source.ts";
import { type Line, readLines } from "./lines.ts";
import { fileKey, hasSameHead, type Position, positionAt, positionIn, savePosition } from "./position.ts";

/**
 * Follows one open file. Invariants:
 * - `position` moves only after the lines before it are stored, together with the checkpoint that says so. A crash or a refused
 *   append therefore repeats nothing and skips nothing.
 * - The open file is followed, not its name: renamed or deleted, it is read to its end.
 */
export interface Tail {
  readonly key: string;
  readonly path: string;
  /** Reads and stores the next lines; false if there was nothing to read. */
  step(signal: AbortSignal): Promise<boolean>;
  /** Stores what is left, the last line even without its end, and forgets the checkpoint: the file will not be read again. */
  finish(signal: AbortSignal): Promise<void>;
  /** Monotonic time of the last change that was seen. */
  readonly changedAt: number;
  close(): Promise<void>;
}

/** Below the smallest queue there is: a batch larger than the queue could only be dropped. */
const batchBytesMax = 512 * 1024;

/** Follows `file` from `start` on. */
export const createTail = (
  { name: source, checkpointSource }: { name: string; checkpointSource: string },
  file: FileHandle,
  stat: { dev: number; ino: number },
  start: Position,
  { append, clock, log }: SourceDependencies,
): Tail => {
  const key = fileKey(stat);
  const { path } = start;
  let position = start;
  let seen: Pick<Stats, "size" | "mtimeMs"> | undefined;
  let exhausted = false;
  let changedAt = clock.monotonic();

  const recordOf = (line: Line): NewRecord => ({
    kind: "log_line",
    observedAtMs: clock.now(),
    source,
    attributes: {
      "file.path": path,
      "file.offset": `${line.offset}`,
      ...(line.partial ? { "file.partial": "true" } : {}),
    },
    payload: line.bytes,
  });

  const startOver = async () => {
    log.info({ source, path }, "the file was truncated; reading it from its beginning");
    position = await positionAt(file, path, 0);
  };

  const store = async (final: boolean, signal: AbortSignal): Promise<boolean> => {
    const records: NewRecord[] = [];
    let bytes = 0;
    const admits = (line: Line): boolean => {
      const record = recordOf(line);
      bytes += recordBytes(record);
      if (records.length > 0 && bytes > batchBytesMax) return false;
      records.push(record);
      return true;
    };
    const { next, chunk } = await readLines(file, position.offset, { final, admits });
    if (records.length === 0) return false;
    const moved = position.offset === 0 ? positionIn(chunk, path, next) : await positionAt(file, path, next, position);
    // After the reading: what was written anew since the last look must not be taken up from the old place.
    if (position.offset > 0 && !(await hasSameHead(file, position))) {
      await startOver();
      return true;
    }
    await append(records, { checkpoints: [{ source: checkpointSource, key, value: savePosition(moved) }], signal });
    position = moved;
    return true;
  };

  /** Starts over in a file that was emptied or written anew (copytruncate). */
  const detectTruncation = async (size: number): Promise<void> => {
    if (size < position.offset || !(await hasSameHead(file, position))) await startOver();
  };

  return {
    key,
    path,
    get changedAt() {
      return changedAt;
    },
    step: async (signal) => {
      const { size, mtimeMs } = await file.stat();
      const changed = seen === undefined || seen.size !== size || seen.mtimeMs !== mtimeMs;
      if (changed) {
        if (seen !== undefined) changedAt = clock.monotonic();
        await detectTruncation(size);
        seen = { size, mtimeMs };
        exhausted = false;
      }
      if (exhausted) return false;
      const stored = await store(false, signal);
      exhausted = !stored;
      return stored;
    },
    finish: async (signal) => {
      while (await store(true, signal));
      await append([], { checkpoints: [{ source: checkpointSource, key, value: null }], signal });
    },
    close: () => file.close(),
  };
};
