import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { measureRecord } from "../../queue/envelope.ts";
import type { NewRecord } from "../../queue/record.ts";
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

/** Follows `file` from `start` on, and reads it into `buffer`, which is free again whenever no call is running. */
export const createTail = (
  { name: source, checkpointSource, buffer }: { name: string; checkpointSource: string; buffer: Buffer },
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

  const recordOf = (line: Line, observedAtMs: number): NewRecord => {
    const attributes = { "file.path": path, "file.offset": `${line.offset}` };
    return {
      kind: "log_line",
      observedAtMs,
      source,
      attributes: line.partial ? { ...attributes, "file.partial": "true" } : attributes,
      payload: line.bytes,
    };
  };

  /** What a line counts in the queue beside its text, at most. */
  const empty: Line = { offset: Number.MAX_SAFE_INTEGER, bytes: new Uint8Array(), partial: true };
  const lineOverheadBytes = measureRecord(recordOf(empty, clock.now())).bytes + 4;

  const startOver = async () => {
    log.info({ source, path }, "the file was truncated; reading it from its beginning");
    position = await positionAt(file, start, 0);
  };

  const store = async (final: boolean, signal: AbortSignal): Promise<boolean> => {
    const records: NewRecord[] = [];
    let bytes = 0;
    const observedAtMs = clock.now();
    const admits = (line: Line): boolean => {
      bytes += lineOverheadBytes + line.bytes.length;
      if (records.length > 0 && bytes > batchBytesMax) return false;
      records.push(recordOf(line, observedAtMs));
      return true;
    };
    const { next, chunk } = await readLines(file, position.offset, { final, admits, buffer });
    if (records.length === 0) return false;
    const moved =
      position.offset === 0 ? positionIn(chunk, start, next) : await positionAt(file, start, next, position);
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
