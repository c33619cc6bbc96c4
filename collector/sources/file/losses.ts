/* Accounts for what is lost of the files of a source. A gap is stored in one transaction with the end of what it ends. */
import { dirname } from "node:path";
import { addFileGap, fileGapSource } from "#collector/queue/file-gaps.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import type { PositionedSourceDependencies } from "../source.ts";
import type { Placement } from "./placement.ts";
import { continues, type Position } from "./position.ts";
import { fileCheckpoints, type Tail } from "./tail.ts";

interface Dependencies
  extends Pick<PositionedSourceDependencies, "append" | "checkpoints" | "log"> {
  readonly source: string;
  readonly tails: ReadonlyMap<string, Tail>;
  readonly signal: AbortSignal;
  /** Whether a pattern finds the file of a tail under its path. */
  isFound(tail: Tail): boolean;
  /** Whether generations may have come and gone in a directory, unseen. */
  wasBlind(directory: string): boolean;
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
  wasBlind,
}: Dependencies) => {
  const counts = { gaps: 0, gap_bytes: 0 };

  /** Counts a gap, of an unknown number of bytes if `bytes` is 0, and stores it together with `end`. */
  const countGap = async (path: string, bytes: number, end: readonly Checkpoint[] = []) => {
    const gap = addFileGap(checkpoints(fileGapSource), source, bytes);
    await append([], { checkpoints: [gap, ...end], signal });
    counts.gaps += 1;
    counts.gap_bytes += bytes;
    log.warn(
      { source, path, bytes },
      "a file is gone before it was known to be read to its end: lines may be lost",
    );
  };

  /** Whether a tail's file was deleted and replaced, and none of the copies has what is unread of it. */
  const isGone = async (tail: Tail, copies: Placement["held"]): Promise<boolean> => {
    const { file, path, ahead } = tail;
    const isReplaced = tails.values().some((other) => other !== tail && other.path === path);
    if (!isReplaced || isFound(tail)) return false;
    const stat = await file.restat().catch(() => undefined);
    if (stat === undefined || stat.links > 0) return false;
    for (const copy of copies)
      if (await continues(copy.file, copy.file.stat.size, ahead)) return false;
    return true;
  };

  return {
    counts: () => counts,
    /** Counts what files were known to have, and do not have where they continue. */
    countMissing: async ({ missing }: Placement) => {
      for (const { path, bytes } of missing) {
        await countGap(path, bytes);
        if (wasBlind(dirname(path))) await countGap(path, 0);
      }
    },
    /** Ends a position. Its file had the bytes that were seen, and may have got more if nobody looked for a while. */
    giveUp: async (key: string, position: Position, mayHaveGrown: boolean) => {
      const { path, offset, size = offset } = position;
      const bytes = Math.max(0, size - offset);
      await countGap(path, bytes, [{ source: fileCheckpoints, key, value: null }]);
      if (bytes > 0 && mayHaveGrown) await countGap(path, 0);
    },
    /**
     * Counts the generations that came and went unseen, while the collector or the mount was away: rotation deletes the oldest first, so that
     * none is missing as long as the last one that was seen is there.
     */
    countUnseen: async ({ firstSeen, held }: Placement) => {
      const paths = new Set<string>();
      for (const path of firstSeen) if (wasBlind(dirname(path))) paths.add(path);
      for (const tail of tails.values())
        if (wasBlind(dirname(tail.file.realPath)) && (await isGone(tail, held)))
          paths.add(tail.path);
      for (const path of paths) await countGap(path, 0);
    },
  };
};
