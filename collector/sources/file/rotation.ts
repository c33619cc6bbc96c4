/*
 * Reads the lines that rotation moved away before they were read. Invariants:
 * - A file that is older than the followed ones is never read: it has been read, or is older than the collector.
 * - A file that starts like a followed one is a copy of it, and only its unread rest is read. `readThroughMs` of the truncated file's position
 *   tells copies that have been read from later ones.
 * - Lines that cannot be found are counted as a gap of the known bytes, in one transaction with the position behind it.
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

/** Follows the files of a source through rotations. */
export interface FileRotation extends TailRotation {
  counts(): { gaps: number; gap_bytes: number };
  resumeElsewhere(key: string, position: Position, signal: AbortSignal): Promise<void>;
  followBetween(path: string): Promise<void>;
}

const hasName = async (key: string, path: string) => {
  const found = await statRegularFile(path).catch(() => null);
  return found !== null && fileKey(found) === key;
};

/** Closes the files, which frees the disk space of decompressed contents. */
const closeAll = async (files: readonly OpenFile[]) => {
  for (const { file } of files) await file.close();
};

const savedAt = (key: string, position: Position): Checkpoint => ({
  source: "file",
  key,
  value: savePosition(position),
});

/** Creates the rotation of the source `name`. */
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

  /** Counts a gap of at least `bytes`, and stores it together with `extra`. */
  const countGap = async (
    path: string,
    bytes: number,
    extra: readonly Checkpoint[],
    signal: AbortSignal,
  ) => {
    counts.gaps += 1;
    counts.gap_bytes += bytes;
    log.warn(
      { source: name, path, bytes },
      "a file was rotated before it was read to its end, and is gone: lines may be lost",
    );
    const gap = addFileGap(checkpoints(fileGapSource), name, bytes);
    await append([], { checkpoints: [gap, ...extra], signal });
  };

  /** Reads a file to which nobody writes any more, and stores `extra` with its last lines. */
  const readToEnd = async (
    opened: OpenFile,
    position: Position,
    extra: readonly Checkpoint[],
    signal: AbortSignal,
  ) => {
    const tail = createTail(opened, position);
    try {
      await tail.finish(signal, extra);
    } finally {
      await tail.close();
    }
  };

  /** Reports whether an open file is a copy of a file named `path`, other than `except`, that is followed or was before a stop. */
  const isFollowed = async (opened: OpenFile, path: string, except?: string) => {
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

    /** Reads the rest of a truncated file from its copy, and then the later copies. Returns where the file continues. */
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

    /** Reads the copies of a file that was truncated before any of it was read. Returns its position. */
    unread: async ({ key, position, file, lostBytes }, signal) => {
      const { path, foundMs = Number.POSITIVE_INFINITY, readThroughMs = foundMs } = position;
      const wanted = (other: string, age: Aged) => !isKnown(other) && age.mtimeMs > readThroughMs;
      const copies: (OpenFile & { age: Aged })[] = [];
      try {
        for await (const opened of openRotated(position, wanted, rules)) {
          // The copy has the file's current content, which is not lost.
          if ((await hasSameStart(opened.file, file)) || (await isFollowed(opened, path, key)))
            await opened.file.close();
          else copies.push(opened);
        }
      } catch (error) {
        await closeAll(copies);
        throw error;
      }
      // If the file has another name now, these may be later files and not its copies.
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

    /** Follows the file of `position` under its current name, compressed or not; counts a gap if there is none. */
    resumeElsewhere: async (
      key: string,
      position: Position,
      signal: AbortSignal,
    ): Promise<void> => {
      const found = await findContinuation(position, (other) => tails.has(other), rules);
      // Keep the checkpoint if another followed file has the inode now.
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

    /** Follows files newer than the oldest followed one that had the name `path`, and were renamed before they were found. */
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
