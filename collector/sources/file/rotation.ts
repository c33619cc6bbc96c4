/*
 * Reads what rotation moved away before it was read. Invariants:
 * - A file that was made before those that are followed is never read: it was, or it is older than the collector.
 * - A file that starts as one that is followed is a copy of it, and only what was not read yet is read from it.
 * - What cannot be found is counted as a gap, of the bytes that are known, in one transaction with the position behind it.
 */
import { addFileGap, fileGapSource } from "../../queue/file-gaps.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Checkpoint } from "../../queue/record.ts";
import type { FileRules, SourceDependencies } from "../source.ts";
import type { OpenFile } from "./discovery.ts";
import { type Position, positionAt } from "./position.ts";
import { type Aged, continues, findContinuation, isNewer, openRotated } from "./rotated-files.ts";
import type { Tail, Truncation } from "./tail.ts";

/** The files that a `file` source follows. */
interface Followed {
  readonly tails: ReadonlyMap<string, Tail>;
  /** The ages of the followed files, by the keys of their tails. */
  readonly ages: ReadonlyMap<string, () => Promise<Aged>>;
  isKnown(key: string): boolean;
  follow(opened: OpenFile, position: Position): Promise<void>;
  createTail(opened: OpenFile, position: Position): Tail;
}

/** Creates the part of the source `name` that follows its files through rotations. */
export const createRotation = (
  { name, rules }: { name: string; rules: FileRules },
  { append, checkpoints, log }: Pick<SourceDependencies, "append" | "log"> & Pick<Queue, "checkpoints">,
  { tails, ages, isKnown, follow, createTail }: Followed,
) => {
  const counts = { gaps: 0, gap_bytes: 0 };

  /** Counts a gap of at least `bytes`, and stores `more` with it. */
  const countGap = async (path: string, bytes: number, more: readonly Checkpoint[], signal: AbortSignal) => {
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
  const readToEnd = async (opened: OpenFile, position: Position, more: readonly Checkpoint[], signal: AbortSignal) => {
    const tail = createTail(opened, position);
    try {
      await tail.finish(signal, more);
    } finally {
      await tail.close();
    }
  };

  return {
    counts: () => ({ ...counts }),

    /** Reads the rest of a truncated file from its copy, and the copies that were made after that one. */
    truncated: async ({ position, unreadBytes, restart }: Truncation, signal: AbortSignal): Promise<void> => {
      const copy = await findContinuation(position, isKnown, rules);
      if (copy === null) {
        if (unreadBytes !== 0) await countGap(position.path, unreadBytes ?? 0, [restart], signal);
        else await append([], { checkpoints: [restart], signal });
        return;
      }
      const copyKey = `${copy.stat.dev}:${copy.stat.ino}`;
      const wanted = (key: string, age: Aged) => key !== copyKey && !isKnown(key) && isNewer(age, copy.age);
      const later: OpenFile[] = [];
      for await (const opened of openRotated(position, wanted, rules)) later.push(opened);
      await readToEnd(copy, position, [restart], signal);
      for (const opened of later) await readToEnd(opened, await positionAt(opened.file, position, 0), [], signal);
    },

    /** Follows the file that `position` read under the name, compressed or not, that it has now; counts a gap if there is none. */
    resumeElsewhere: async (key: string, position: Position, signal: AbortSignal): Promise<void> => {
      const found = await findContinuation(position, isKnown, rules);
      const forget = { source: "file", key, value: null };
      if (found !== null) {
        await follow(found, position);
        await append([], { checkpoints: [forget], signal });
        return;
      }
      const isReplaced = tails.values().some(({ path }) => path === position.path);
      if (isReplaced) await countGap(position.path, 0, [forget], signal);
      else await append([], { checkpoints: [forget], signal });
    },

    /** Follows the files that had the name `path` after the oldest that is followed, and lost it before they were found. */
    followBetween: async (path: string): Promise<void> => {
      const generations = [...tails.values()].filter((tail) => tail.path === path);
      const known = await Promise.all(generations.map(async ({ key }) => ages.get(key)?.()));
      const [oldest] = known.filter((age) => age !== undefined).sort((a, b) => a.mtimeMs - b.mtimeMs);
      const [first] = generations;
      if (oldest === undefined || first === undefined || generations.length < 2) return;
      const wanted = (key: string, age: Aged) => !isKnown(key) && isNewer(age, oldest);
      for await (const opened of openRotated(first.position, wanted, rules)) {
        const isCopy = await Promise.all(generations.map(({ position }) => continues(opened, position)));
        if (isCopy.includes(true)) await opened.file.close();
        else await follow(opened, await positionAt(opened.file, first.position, 0));
      }
    },
  };
};
