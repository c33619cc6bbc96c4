/*
 * Looks for files that the patterns match and nothing follows yet. A directory that has not changed costs one call, whatever it holds, and a pass
 * without a change costs nothing else.
 */
import { basename, dirname, join, matchesGlob } from "node:path";
import type { SourceWarning } from "../source.ts";
import type { Directories } from "./directories.ts";
import { type Candidate, candidateOf, type FileOpener } from "./file-opener.ts";
import { fileKey } from "./position.ts";
import { baseOfRotated, possibleBases } from "./rotated-names.ts";
import {
  type DirectoryEntry,
  type FileStat,
  ForbiddenFileError,
  type SourceFiles,
} from "./source-files.ts";
import { createWalk, type FilePatterns, type FoundPath } from "./walk.ts";
import { noMatchWarning, passedOverWarnings, warningOf } from "./warnings.ts";

/** A name that is followed. */
export interface FollowedName {
  readonly path: string;
  /** Where its file is, without symbolic links. */
  readonly realPath: string;
}

interface Dependencies {
  readonly files: SourceFiles;
  readonly directories: Directories;
  readonly opener: FileOpener;
  isFollowed(key: string): boolean;
  isParked(stat: FileStat): boolean;
  /** The paths of all files that are or were followed. */
  knownPaths(): Iterable<string>;
}

/** The file that a path named at the last look, and its directory. */
interface Sighting {
  readonly key: string;
  readonly directory: string;
}

/** Creates the search for the files of patterns. */
export const createPatternFiles = (
  patterns: FilePatterns,
  { files, directories, opener, isFollowed, isParked, knownPaths }: Dependencies,
) => {
  const walks = patterns.include.map((pattern) => ({
    pattern,
    walk: createWalk(pattern, patterns, { files, directories }),
    found: undefined as readonly FoundPath[] | undefined,
  }));
  const sighted = new Map<string, Sighting>();
  /** The directories that decide what the paths name, and what they had when these were looked at. */
  let decisive = new Map<string, readonly DirectoryEntry[]>();
  let changed: ReadonlySet<string> = new Set();
  /** The directories that this pass could list. */
  let listed: string[] = [];

  /** Lists the directories anew, and notes which of them have changed since the last pass. */
  const listAll = async () => {
    const found = new Set<string>();
    listed = [];
    for (const [directory, before] of decisive) {
      const entries = await directories.list(directory).catch(() => undefined);
      if (entries === undefined) continue;
      listed.push(directory);
      if (entries !== before) found.add(directory);
      decisive.set(directory, entries);
    }
    changed = found;
  };

  /** Forgets the paths that no pattern finds any more, and remembers the directories of all others. */
  const keepFound = () => {
    const kept = new Map<string, readonly DirectoryEntry[]>();
    const paths = new Set<string>();
    for (const { found = [] } of walks)
      for (const { path, directory } of found) {
        paths.add(path);
        kept.set(directory, decisive.get(directory) ?? []);
      }
    for (const [path, { directory }] of sighted) {
      if (paths.has(path)) kept.set(directory, decisive.get(directory) ?? []);
      else sighted.delete(path);
    }
    decisive = kept;
  };

  /** Walks the patterns; true if one finds other paths than before. One that cannot be walked is tried again by the next pass. */
  const walkAll = async (): Promise<boolean> => {
    let isNew = false;
    for (const entry of walks) {
      try {
        const found = await entry.walk.find();
        isNew ||= found !== entry.found;
        entry.found = found;
      } catch (error) {
        opener.warn(entry.pattern, error);
      }
    }
    return isNew;
  };

  /** Returns where the file of a found path is; null if it is nowhere. */
  const locate = async ({ path, directory, isLink }: FoundPath): Promise<string | null> =>
    isLink ? ((await files.resolve(path))?.path ?? null) : join(directory, basename(path));

  /** Looks at what a found path names. Returns its file if that is not followed. */
  const look = async (found: FoundPath, isOfNewPattern: boolean): Promise<Candidate | null> => {
    const { path } = found;
    const realPath = await locate(found);
    const stat = realPath === null ? null : await files.stat(realPath);
    // Node replaces other bytes of a name, by which the file cannot be opened: its lines would be missing without a word.
    if (stat === null && path.includes("\ufffd"))
      throw new ForbiddenFileError("its name is not UTF-8");
    if (realPath === null || !stat?.isFile) {
      sighted.delete(path);
      return null;
    }
    const key = fileKey(stat);
    sighted.set(path, { key, directory: dirname(realPath) });
    if (isFollowed(key) || isParked(stat)) return null;
    const file = await opener.open(path, stat);
    if (file === "full" || file === null) return null;
    return candidateOf({ file, base: path, origin: "live", isOfNewPattern });
  };

  /** Reports whether what a path names may be another file than when it was looked at. */
  const mayDiffer = ({ path, directory }: FoundPath): boolean => {
    const before = sighted.get(path);
    return (
      before === undefined ||
      !isFollowed(before.key) ||
      changed.has(before.directory) ||
      changed.has(directory)
    );
  };

  /** Returns found files with the names that they had before rotation, where those are found or known too. */
  const withBases = (candidates: readonly Candidate[]): Candidate[] => {
    const found = walks.flatMap((walk) => walk.found?.map(({ path }) => path) ?? []);
    const names = new Map<string, Set<string>>();
    for (const path of [...found, ...knownPaths()]) {
      const directory = dirname(path);
      names.set(directory, (names.get(directory) ?? new Set()).add(basename(path)));
    }
    return candidates.map((candidate) => {
      const { path } = candidate.file;
      const base = baseOfRotated(basename(path), names.get(dirname(path)) ?? new Set());
      if (base === undefined) return candidate;
      return { ...candidate, base: join(dirname(path), base), origin: "rotated" };
    });
  };

  return {
    /** Begins a pass. Returns whether anything has changed: otherwise there is nothing to look at. */
    beginPass: async (): Promise<boolean> => {
      const isNew = await walkAll();
      await listAll();
      return isNew || changed.size > 0;
    },
    /** Opens the files that are not followed; `isAgain`: also where nothing has changed. */
    lookAll: async (newPatterns: ReadonlySet<string>, isAgain: boolean): Promise<Candidate[]> => {
      const candidates: Candidate[] = [];
      for (const { pattern, found = [] } of walks)
        for (const path of found.filter((one) => isAgain || mayDiffer(one))) {
          try {
            const candidate = await look(path, newPatterns.has(pattern));
            if (candidate) candidates.push(candidate);
          } catch (error) {
            opener.warn(path.path, error);
          }
        }
      keepFound();
      return candidates.length === 0 ? candidates : withBases(candidates);
    },
    /** Returns what the patterns do not find, or pass over. */
    warnings: (): SourceWarning[] => [
      ...walks.flatMap(({ pattern, walk, found }) => {
        if (found === undefined)
          return warningOf("no_answer", [pattern], "not searched: its file system does not answer");
        const isMatch =
          walk.passedOver().directory.length > 0 || found.some(({ path }) => sighted.has(path));
        return isMatch ? [] : noMatchWarning(pattern);
      }),
      ...passedOverWarnings(
        walks.map(({ walk }) => walk.passedOver()),
        (path) => sighted.has(path),
      ),
    ],
    /** The directories of found files that this pass could list. */
    listed: () => listed,
    /** The patterns whose files are known. */
    walkedPatterns: () => walks.filter(({ found }) => found).map(({ pattern }) => pattern),
    /** Reports whether every pattern of a path has been walked. */
    isWalked: (path: string) =>
      walks.every(({ pattern, found }) => found || !matchesGlob(path, pattern)),
    /** Reports whether a pattern finds this file under this path. */
    isFound: (path: string, key: string) => sighted.get(path)?.key === key,
    /** Returns the names that new patterns would match before a rotation: what has these names now is older than the patterns. */
    rotatedAwayNames: (newPatterns: ReadonlySet<string>): FollowedName[] =>
      walks
        .filter(({ pattern }) => newPatterns.has(pattern))
        .flatMap(({ pattern, walk }) =>
          walk.places().flatMap(({ path, directory, entries }) =>
            entries
              .flatMap(({ name }) => possibleBases(name))
              .filter((base) => matchesGlob(join(path, base), pattern))
              .map((base) => ({ path: join(path, base), realPath: join(directory, base) })),
          ),
        ),
  };
};
