/*
 * Reads what rotation moved away before it was read. Invariants:
 * - A file that was made before those that are followed is never read: it was, or it is older than the collector.
 * - A file that starts as one that is followed is a copy of it, and only what was not read yet is read from it. A copy that was read
 *   starts as nothing any more: the position of the truncated file has the time of the newest one.
 * - What cannot be found is counted as a gap, of the bytes that are known, in one transaction with the position behind it.
 */
import { addFileGap, fileGapSource } from "#collector/queue/file-gaps.ts";
import type { Queue } from "#collector/queue/queue.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import type { FileRules, SourceDependencies } from "../source.ts";
import {
  type Aged,
  findContinuation,
  isNewer,
  type OpenFile,
  openRotated,
  statRegularFile,
} from "./discovery.ts";
import {
  continues,
  fileKey,
  hasSameStart,
  type Position,
  parsePosition,
  positionAt,
  savePosition,
} from "./position.ts";
import type { Tail, TailRotation, Truncation } from "./tail.ts";

/** The files that a `file` source follows. */
interface Followed {
  readonly tails: ReadonlyMap<string, Tail>;
  /** The ages of the followed files, by the keys of their tails. */
  readonly ages: ReadonlyMap<string, () => Promise<Aged>>;
  isKnown(key: string): boolean;
  follow(opened: OpenFile, position: Position): Promise<void>;
  createTail(opened: OpenFile, position: Position): Tail;
}

/** How the files of a source are followed through rotations. */
export interface FileRotation extends TailRotation {
  counts(): { gaps: number; gap_bytes: number };
  resumeElsewhere(key: string, position: Position, signal: AbortSignal): Promise<void>;
  followBetween(path: string): Promise<void>;
}

const hasName = async (key: string, path: string): Promise<boolean> => {
  const found = await statRegularFile(path).catch(() => null);
  return found !== null && fileKey(found) === key;
};

/** Frees the room that contents of compressed files take. */
const closeAll = async (files: readonly OpenFile[]): Promise<void> => {
  for (const { file } of files) await file.close();
};

const savedAt = (key: string, position: Position): Checkpoint => ({
  source: "file",
  key,
  value: savePosition(position),
});

/** Creates the part of the source `name` that follows its files through rotations. */
export const createRotation = (
  { name, rules }: { name: string; rules: FileRules },
  {
    append,
    checkpoints,
    log,
  }: Pick<SourceDependencies, "append" | "log"> & Pick<Queue, "checkpoints">,
  { tails, ages, isKnown, follow, createTail }: Followed,
): FileRotation => {
  const counts = { gaps: 0, gap_bytes: 0 };

  /** Counts a gap of at least `bytes`, and stores `more` with it. */
  const countGap = async (
    path: string,
    bytes: number,
    more: readonly Checkpoint[],
    signal: AbortSignal,
  ) => {
    counts.gaps += 1;
    counts.gap_bytes += bytes;
    log.warn(
      { source: name, path, bytes },
      "a file was rotated before it was read to its end, and is gone: lines may be lost",
    );
    const gap = addFileGap(checkpoints(fileGapSource), name, bytes);
    await append([], { checkpoints: [gap, ...more], signal });
  };

  /** Reads a file that nobody writes any more to its end. */
  const readToEnd = async (
    opened: OpenFile,
    position: Position,
    more: readonly Checkpoint[],
    signal: AbortSignal,
  ) => {
    const tail = createTail(opened, position);
    try {
      await tail.finish(signal, more);
    } finally {
      await tail.close();
    }
  };

  /** Whether an open file is a copy of another one than `except` that has the name `path` and is followed, or was before a stop. */
  const isFollowed = async (opened: OpenFile, path: string, except?: string): Promise<boolean> => {
    for (const tail of tails.values())
      if (tail.path === path && tail.key !== except && (await tail.isSameFile(opened))) return true;
    for (const [key, value] of checkpoints("file")) {
      const position = key === except ? null : parsePosition(value);
      if (position?.path === path && (await continues(opened, position))) return true;
    }
    return false;
  };

  return {
    counts: () => ({ ...counts }),

    /** Reads the rest of a truncated file from its copy, and the copies that were made after that one. Returns where the file continues. */
    truncated: async (
      { key, position, unreadBytes, restart, changedMs }: Truncation,
      signal: AbortSignal,
    ) => {
      const copy = await findContinuation(position, isKnown, rules);
      if (copy === null) {
        const next = { ...restart, readThroughMs: changedMs };
        if (unreadBytes !== 0)
          await countGap(position.path, unreadBytes ?? 0, [savedAt(key, next)], signal);
        else await append([], { checkpoints: [savedAt(key, next)], signal });
        return next;
      }
      const copyKey = fileKey(copy.stat);
      const wanted = (key: string, age: Aged) =>
        key !== copyKey && !isKnown(key) && isNewer(age, copy.age);
      const later: (OpenFile & { age: Aged })[] = [];
      try {
        for await (const opened of openRotated(position, wanted, rules)) {
          if (await isFollowed(opened, position.path, key)) await opened.file.close();
          else later.push(opened);
        }
      } catch (error) {
        await closeAll([copy, ...later]);
        throw error;
      }
      const times = [copy, ...later].map(({ age }) => age.mtimeMs);
      const next = { ...restart, readThroughMs: Math.max(changedMs, ...times) };
      await readToEnd(copy, position, [savedAt(key, next)], signal);
      for (const opened of later)
        await readToEnd(opened, await positionAt(opened.file, position, 0), [], signal);
      return next;
    },

    /** Reads the copies of a file that was truncated before anything was read of it. Returns its position. */
    unread: async ({ key, position, file, lostBytes }, signal) => {
      const { path, foundMs = Number.POSITIVE_INFINITY, readThroughMs = foundMs } = position;
      const wanted = (other: string, age: Aged) => !isKnown(other) && age.mtimeMs > readThroughMs;
      const copies: (OpenFile & { age: Aged })[] = [];
      try {
        for await (const opened of openRotated(position, wanted, rules)) {
          // A copy of what it still has.
          if ((await hasSameStart(opened.file, file)) || (await isFollowed(opened, path, key)))
            await opened.file.close();
          else copies.push(opened);
        }
      } catch (error) {
        await closeAll(copies);
        throw error;
      }
      // Under another name, it may have been renamed before those were made: they are files that came after it.
      if (!(await hasName(key, path))) await closeAll(copies.splice(0));
      copies.sort((a, b) => a.age.mtimeMs - b.age.mtimeMs);
      if (copies.length === 0) {
        if (lostBytes > 0) await countGap(path, lostBytes, [], signal);
        return position;
      }
      const next = { ...position, readThroughMs: copies.at(-1)?.age.mtimeMs };
      for (const copy of copies)
        await readToEnd(copy, await positionAt(copy.file, position, 0), [], signal);
      await append([], { checkpoints: [savedAt(key, next)], signal });
      return next;
    },

    /** Follows the file that `position` read under the name, compressed or not, that it has now; counts a gap if there is none. */
    resumeElsewhere: async (
      key: string,
      position: Position,
      signal: AbortSignal,
    ): Promise<void> => {
      const found = await findContinuation(position, (other) => tails.has(other), rules);
      // Not if another file has its inode now.
      const forget = tails.has(key) ? [] : [{ source: "file", key, value: null }];
      if (found !== null) {
        await follow(found, position);
        await append([], {
          checkpoints: [...forget, savedAt(fileKey(found.stat), position)],
          signal,
        });
        return;
      }
      const isReplaced = tails.values().some(({ path }) => path === position.path);
      if (isReplaced) await countGap(position.path, 0, forget, signal);
      else await append([], { checkpoints: forget, signal });
    },

    /** Follows the files that had the name `path` after the oldest that is followed, and lost it before they were found. */
    followBetween: async (path: string): Promise<void> => {
      const generations = [...tails.values()].filter((tail) => tail.path === path);
      const known = await Promise.all(generations.map(async ({ key }) => ages.get(key)?.()));
      const [oldest] = known
        .filter((age) => age !== undefined)
        .sort((a, b) => a.mtimeMs - b.mtimeMs);
      const [first] = generations;
      if (oldest === undefined || first === undefined || generations.length < 2) return;
      const readThroughMs = Math.max(
        ...generations.map(({ position }) => position.readThroughMs ?? 0),
      );
      const wanted = (key: string, age: Aged) =>
        !isKnown(key) && isNewer(age, oldest) && age.mtimeMs > readThroughMs;
      for await (const opened of openRotated(first.position, wanted, rules)) {
        // Nobody writes to a compressed file.
        const isEmpty = opened.age.isPacked && opened.stat.size === 0;
        if (isEmpty || (await isFollowed(opened, path))) await opened.file.close();
        else await follow(opened, await positionAt(opened.file, first.position, 0));
      }
    },
  };
};
