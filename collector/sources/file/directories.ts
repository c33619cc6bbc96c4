/*
 * Lists directories, again and again, without reading those that have not changed: a directory's modification time changes when a name is added,
 * removed or renamed in it. A watched directory is not even looked at in each pass.
 */
import type { Clock } from "#kit/clock.ts";
import type { DirectoryWatch } from "./directory-watch.ts";
import { fileKey } from "./position.ts";
import type { DirectoryEntry, SourceFiles } from "./source-files.ts";

/** A directory as it was last read. */
interface Listing {
  readonly entries: readonly DirectoryEntry[];
  readonly mtimeMs: number;
  readonly readAtMs: number;
  readonly key: string;
  /** When it was last looked at, in monotonic time. */
  readonly lookedAt: number;
}

/** Reads directories again only when they have changed. */
export type Directories = ReturnType<typeof createDirectories>;

/** File systems tell changes apart by their own clocks, of up to two seconds a tick. */
const tickMs = 2_000;

/** After this time a directory is read even if nothing says that it has changed. */
const backstopMs = 60_000;

/** After this time a directory is looked at although it is watched: an overflow of events is not reported. */
const watchedMs = 4_000;

/** The entries of a directory that is missing or may not be read: always the same array. */
export const noEntries: readonly DirectoryEntry[] = [];

/** Creates the directories, none of them read. */
export const createDirectories = (
  files: Pick<SourceFiles, "list" | "stat">,
  clock: Pick<Clock, "now" | "monotonic">,
  watch: Pick<DirectoryWatch, "since"> = { since: () => undefined },
) => {
  const listings = new Map<string, Listing>();
  let looked = new Map<string, Promise<readonly DirectoryEntry[]>>();
  let isLookingAtAll = true;

  const read = async (path: string): Promise<readonly DirectoryEntry[]> => {
    const before = listings.get(path);
    const lookedAt = clock.monotonic();
    // Every change since the last look would have been reported.
    const isWatched = before !== undefined && (watch.since(path) ?? lookedAt) < before.lookedAt;
    const isRecent = isWatched && lookedAt - before.lookedAt < watchedMs;
    if (isRecent && !isLookingAtAll) return before.entries;
    const stat = await files.stat(path);
    if (!stat?.isDirectory) {
      listings.delete(path);
      return noEntries;
    }
    const now = clock.now();
    const isSame =
      before?.mtimeMs === stat.mtimeMs &&
      before.key === fileKey(stat) &&
      before.readAtMs - stat.mtimeMs > tickMs &&
      (isWatched || Math.abs(now - before.readAtMs) < backstopMs);
    const entries = isSame ? before.entries : await files.list(path);
    const readAtMs = isSame ? before.readAtMs : now;
    const { mtimeMs } = stat;
    listings.set(path, { entries, mtimeMs, readAtMs, key: fileKey(stat), lookedAt });
    return entries;
  };

  return {
    /** Returns the entries of a directory without links in its path: the same array as before, if nothing has changed. */
    list: (path: string) => {
      const pending = looked.get(path) ?? read(path);
      looked.set(path, pending);
      return pending;
    },
    /** Reports whether a directory has changed since it was listed; this pass then lists it anew. */
    hasChanged: async (path: string) => {
      const stat = await files.stat(path);
      const before = listings.get(path);
      const isSame = stat?.isDirectory
        ? before?.mtimeMs === stat.mtimeMs && before.key === fileKey(stat)
        : before === undefined;
      if (!isSame) looked.delete(path);
      return !isSame;
    },
    /** Begins a pass, in which each directory is looked at once. A watched one is passed over at times, unless it `looksAtAll`. */
    beginPass: (looksAtAll: boolean) => {
      looked = new Map();
      isLookingAtAll = looksAtAll;
    },
  };
};
