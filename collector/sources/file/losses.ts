/* Accounts for what is lost of the files of a source. A gap is stored in one transaction with the end of what it ends. */
import { dirname } from "node:path";
import { addFileGaps, fileGapSource } from "#collector/queue/file-gaps.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import type { PositionedSourceDependencies } from "../source.ts";
import type { FileOpener, UnopenedFile } from "./file-opener.ts";
import type { Placement } from "./placement.ts";
import { continues, fileCheckpoints, type Position } from "./position.ts";
import type { Tail } from "./tail.ts";

interface Dependencies
  extends Pick<PositionedSourceDependencies, "append" | "checkpoints" | "log"> {
  readonly source: string;
  readonly tails: ReadonlyMap<string, Tail>;
  readonly signal: AbortSignal;
  /** Reports whether a pattern finds the file of a tail under its path. */
  isFound(tail: Tail): boolean;
  isFollowed(key: string): boolean;
  readonly opener: Pick<FileOpener, "unopened" | "hasOpened">;
  /** Reports whether generations may have come and gone in a directory, unseen. */
  wasBlind(directory: string): boolean;
}

/** Lines that are lost: their bytes, or 0 if nobody knows how many. */
export interface Gap {
  readonly path: string;
  readonly bytes: number;
}

/** Creates the account of losses. */
export const createLosses = ({
  append,
  checkpoints,
  log,
  source,
  tails,
  signal,
  isFound,
  isFollowed,
  opener,
  wasBlind,
}: Dependencies) => {
  /** The files that were never opened, and whether the last pass has not found them. */
  let unopened = new Map<string, UnopenedFile & { isMissed: boolean }>();
  const counts = { gaps: 0, gap_bytes: 0 };

  /** Stores gaps and other checkpoints in one transaction, and counts the gaps. */
  const store = async (gaps: readonly Gap[], others: readonly Checkpoint[]) => {
    if (gaps.length + others.length === 0) return;
    const sizes = gaps.map(({ bytes }) => bytes);
    const added = gaps.length > 0 ? [addFileGaps(checkpoints(fileGapSource), source, sizes)] : [];
    await append([], { checkpoints: [...added, ...others], signal });
    for (const { path, bytes } of gaps) {
      counts.gaps += 1;
      counts.gap_bytes += bytes;
      log.warn(
        { source, path, bytes },
        "a file is gone before it was known to be read to its end: lines may be lost",
      );
    }
  };

  /** Reports whether a tail's file was deleted and replaced, and none of the copies has what is unread of it. */
  const isGone = async (tail: Tail, copies: Placement["undecided"]): Promise<boolean> => {
    const { file, path, ahead } = tail;
    if (isFound(tail)) return false;
    const isReplaced = tails.values().some((other) => other !== tail && other.path === path);
    if (!isReplaced) return false;
    const stat = await file.restat().catch(() => undefined);
    if (stat === undefined || stat.links > 0) return false;
    for (const copy of copies)
      if (await continues(copy.file, copy.file.stat.size, ahead)) return false;
    return true;
  };

  /** The files after whose end generations were counted as unseen: once, however often a pass is blind. */
  const counted = new WeakSet<Tail>();

  /** A gap of unknown size, if generations of a path may have come and gone unseen. */
  const unseenIn = (path: string): Gap[] => (wasBlind(dirname(path)) ? [{ path, bytes: 0 }] : []);

  return {
    counts: () => counts,
    store,
    /**
     * Returns what is lost of the files that a pass has placed: what they were known to have and do not have where they continue, and the
     * generations of a name that came and went before it was seen.
     */
    gapsOf: ({ missing, firstSeen }: Placement): Gap[] => [
      ...missing.flatMap((gap) => [gap, ...unseenIn(gap.path)]),
      ...[...firstSeen].flatMap(unseenIn),
    ],
    /** Ends a position. Its file had the bytes that were seen, and may have got more if nobody looked for a while. */
    giveUp: (key: string, position: Position, mayHaveGrown: boolean) => {
      const { path, offset, size = offset } = position;
      const bytes = Math.max(0, size - offset);
      const unseen = bytes > 0 && mayHaveGrown ? [{ path, bytes: 0 }] : [];
      return store([{ path, bytes }, ...unseen], [{ source: fileCheckpoints, key, value: null }]);
    },
    hasMissed: () => unopened.values().some(({ isMissed }) => isMissed),
    /** Counts the files that were never opened and that two passes have not found again. */
    countUnopened: async (isComplete: (directory: string) => Promise<boolean>) => {
      const now = new Map(
        opener
          .unopened()
          .entries()
          .map(([key, file]) => [key, { ...file, isMissed: false }]),
      );
      const gaps: Gap[] = [];
      for (const [key, file] of unopened) {
        if (now.has(key) || opener.hasOpened(key) || isFollowed(key)) continue;
        if (file.isMissed && (await isComplete(dirname(file.path)))) gaps.push(file);
        else now.set(key, { ...file, isMissed: true });
      }
      await store(gaps, []);
      unopened = now;
    },
    /**
     * Counts the generations that came and went while the collector or the mount was away: rotation deletes the oldest first, so none is
     * missing as long as the last one that was seen is there.
     */
    countUnseen: async ({ undecided }: Placement) => {
      const paths = new Set<string>();
      for (const tail of tails.values())
        if (
          !counted.has(tail) &&
          wasBlind(dirname(tail.file.realPath)) &&
          (await isGone(tail, undecided))
        ) {
          counted.add(tail);
          paths.add(tail.path);
        }
      await store(
        [...paths].map((path) => ({ path, bytes: 0 })),
        [],
      );
    },
  };
};
