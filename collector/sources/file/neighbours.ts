/* Looks for files beside followed ones, with names that rotation gives. */
import { basename, dirname, join } from "node:path";
import type { Clock } from "#kit/clock.ts";
import type { Directories } from "./directories.ts";
import { type Candidate, candidateOf, type FileOpener } from "./file-opener.ts";
import type { FollowedName } from "./pattern-files.ts";
import { fileKey } from "./position.ts";
import { baseOfRotated } from "./rotated-names.ts";
import { type DirectoryEntry, ForbiddenFileError, type SourceFiles } from "./source-files.ts";

interface Dependencies {
  readonly files: SourceFiles;
  readonly directories: Directories;
  readonly opener: FileOpener;
  readonly clock: Pick<Clock, "monotonic">;
  isFollowed(key: string): boolean;
}

/** Which directories are looked into, though they have not changed, and which names are of a new pattern. */
interface NeighbourSearch {
  mustLook(directory: string): boolean;
  isOfNewPattern(path: string): boolean;
}

/** A generation that lived for less may be gone unseen. */
const blindMs = 5_000;
/** So often a pass looks into a directory whose names move while it opens the files, which hides some of them. */
const looksMax = 5;

/** Creates the search beside followed files. */
export const createNeighbours = ({
  files,
  directories,
  opener,
  clock,
  isFollowed,
}: Dependencies) => {
  /** The entries of each directory when it was last looked into. */
  const examined = new Map<string, readonly DirectoryEntry[]>();
  /** When this pass has listed each directory. */
  const listed = new Map<string, number>();
  /** When each directory was last listed by a pass that has opened and decided on all that was in it. */
  const listedAt = new Map<string, number>();
  /** Directories that were not listed for a while before this pass. */
  const blind = new Set<string>();
  /** Directories in which not every file could be opened. */
  const unopened = new Set<string>();

  /** Notes that this pass lists a directory. */
  const note = (directory: string) => {
    const before = listedAt.get(directory) ?? Number.NEGATIVE_INFINITY;
    const now = clock.monotonic();
    if (now - before > blindMs) blind.add(directory);
    listed.set(directory, now);
  };

  /** Opens a file of a directory unless it is followed. */
  const open = async (path: string) => {
    try {
      const stat = await files.stat(path);
      if (!stat?.isFile || isFollowed(fileKey(stat))) return null;
      const file = await opener.open(path, stat);
      if (file !== "full") return file;
    } catch (error) {
      opener.warn(path, error);
      if (error instanceof ForbiddenFileError) return null;
    }
    unopened.add(dirname(path));
    return null;
  };

  const openAll = async (
    directory: string,
    entries: readonly DirectoryEntry[],
    bases: ReadonlyMap<string, string>,
    isOfNewPattern: NeighbourSearch["isOfNewPattern"],
  ): Promise<Candidate[]> => {
    const candidates: Candidate[] = [];
    const baseNames = new Set(bases.keys());
    for (const { name, kind } of entries) {
      const baseName = kind === "file" ? baseOfRotated(name, baseNames) : undefined;
      const file = baseName === undefined ? null : await open(join(directory, name));
      if (baseName === undefined || file === null) continue;
      const base = bases.get(baseName) ?? baseName;
      candidates.push(
        candidateOf({ file, base, origin: "beside", isOfNewPattern: isOfNewPattern(base) }),
      );
    }
    return candidates;
  };

  /** Opens the files of a directory until no name moves meanwhile: a rotation between two of them hides a generation from both. */
  const lookInto = async (
    directory: string,
    bases: ReadonlyMap<string, string>,
    { mustLook, isOfNewPattern }: NeighbourSearch,
    candidates: Candidate[],
  ) => {
    for (let look = 0; look < looksMax; look += 1) {
      const entries = await directories.list(directory);
      const isUnchanged = examined.get(directory) === entries;
      note(directory);
      const mayHaveMore = unopened.delete(directory);
      if (isUnchanged && !mayHaveMore && !mustLook(directory)) return;
      examined.set(directory, entries);
      candidates.push(...(await openAll(directory, entries, bases, isOfNewPattern)));
      if (!(await directories.hasChanged(directory))) return;
    }
    unopened.add(directory);
  };

  return {
    /** Begins a pass that lists these directories. */
    beginPass: (directoriesOfFiles: Iterable<string>) => {
      blind.clear();
      listed.clear();
      for (const directory of directoriesOfFiles) note(directory);
    },
    /** Ends a pass that has decided on everything that it found. */
    endPass: () => {
      for (const [directory, at] of listed)
        if (!unopened.has(directory)) listedAt.set(directory, at);
    },
    /** Opens the files beside `names`, in directories that have changed. Passes over those that cannot be listed now. */
    lookBeside: async (
      names: Iterable<FollowedName>,
      search: NeighbourSearch,
    ): Promise<Candidate[]> => {
      const candidates: Candidate[] = [];
      for (const [directory, bases] of byDirectory(names)) {
        await lookInto(directory, bases, search, candidates).catch((error: unknown) => {
          opener.warn(directory, error);
          unopened.add(directory);
        });
      }
      return candidates;
    },
    /** Reports whether the last pass has opened everything in a directory that may continue something. */
    isComplete: (directory: string): Promise<boolean> =>
      unopened.has(directory)
        ? Promise.resolve(false)
        : directories.list(directory).then(
            () => true,
            () => false,
          ),
    /** Reports whether files wait beside followed ones. */
    hasUnopened: () => unopened.size > 0,
    /** Reports whether generations may have come and gone in a directory before this pass, unseen. */
    wasBlind: (directory: string) => blind.has(directory),
  };
};

/** Groups names by their directories: base names with the paths that they are reported under. */
const byDirectory = (names: Iterable<FollowedName>): Map<string, Map<string, string>> => {
  const groups = new Map<string, Map<string, string>>();
  for (const { path, realPath } of names) {
    const directory = dirname(realPath);
    const bases = groups.get(directory) ?? new Map<string, string>();
    bases.set(basename(realPath), path);
    groups.set(directory, bases);
  }
  return groups;
};
