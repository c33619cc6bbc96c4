/* Finds the paths of patterns, again and again. */
import { join, matchesGlob, resolve } from "node:path";
import { type Directories, noEntries } from "./directories.ts";
import { type DirectoryEntry, isDenied, type SourceFiles } from "./source-files.ts";
import { nothingPassedOver, type PassedOver } from "./warnings.ts";

/** Selects the files of a source. */
export interface FilePatterns {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** Whether `**` descends into linked directories. */
  readonly followLinks?: boolean;
  /** Whether `*`, `?` and `**` match names that begin with a dot. */
  readonly hidden?: boolean;
}

/** A path that a pattern matches. */
export interface FoundPath {
  readonly path: string;
  /** Its directory, without symbolic links. */
  readonly directory: string;
  /** Whether the path itself is a symbolic link. */
  readonly isLink: boolean;
}

interface WalkDependencies {
  readonly files: Pick<SourceFiles, "resolve" | "stat">;
  readonly directories: Directories;
}

type LinksByEntries = WeakMap<readonly DirectoryEntry[], ReadonlySet<string>>;

const findPaths = async (
  pattern: string,
  { exclude, followLinks = false, hidden = false }: FilePatterns,
  {
    files,
    list,
    links,
  }: Pick<WalkDependencies, "files"> & Pick<Directories, "list"> & { links: LinksByEntries },
  { places, passedOver }: Reached,
): Promise<FoundPath[]> => {
  const found = new Map<string, FoundPath>();
  const isExcluded = (path: string) => exclude.some((other) => matchesGlob(path, other));
  const add = (path: string, directory: string, kind: DirectoryEntry["kind"]) => {
    if (kind !== "file" && kind !== "link") return;
    if (!isExcluded(path)) found.set(path, { path, directory, isLink: kind === "link" });
  };

  const directoryOf = async (
    path: string,
    kind: DirectoryEntry["kind"],
  ): Promise<string | undefined> => {
    if (kind === "directory") return path;
    if (kind !== "link") return undefined;
    const resolved = await files.resolve(path).catch(nullIfDenied);
    const stat = resolved && (await files.stat(resolved.path).catch(nullIfDenied));
    return stat?.isDirectory ? resolved?.path : undefined;
  };

  /** Returns the links to directories among entries, and looks at them once as long as these do not change. */
  const linksAmong = async (directory: string, entries: readonly DirectoryEntry[]) => {
    const known = links.get(entries);
    if (known !== undefined) return known;
    const among = new Set<string>();
    for (const { name, kind } of entries)
      if (kind === "link" && (await directoryOf(join(directory, name), kind)) !== undefined)
        among.add(name);
    links.set(entries, among);
    return among;
  };

  const note = (list: string[], { path }: Place, names: Iterable<string>) => {
    for (const name of names) if (!isExcluded(join(path, name))) list.push(join(path, name));
  };

  /** Notes what a segment leaves out of a place. */
  const notePassedOver = async (
    place: Place,
    entries: readonly DirectoryEntry[],
    segment: string,
    isLast: boolean,
  ) => {
    if (!hidden) note(passedOver.hidden, place, hiddenFrom(entries, segment, isLast));
    if (segment === "**" && !followLinks)
      note(passedOver.linked, place, await linksAmong(place.directory, entries));
  };

  /** Returns the directories of `place` that `**` descends into, or that a segment before the last one names. */
  const below = async (
    { path, directory, above }: Place,
    names: readonly DirectoryEntry[],
    isDeep: boolean,
  ) => {
    const places: Place[] = [];
    for (const { name, kind } of names) {
      if (isDeep && kind === "link" && !followLinks) continue;
      const target = await directoryOf(join(directory, name), kind);
      if (target === undefined || above.includes(target)) continue;
      places.push({ path: join(path, name), directory: target, above: [...above, target] });
    }
    return places;
  };

  const walk = async (place: Place, segments: readonly string[]): Promise<void> => {
    const [segment = "", ...rest] = segments;
    const isDeep = segment === "**";
    const isLast = rest.length === 0;
    if (isDeep && !isLast) await walk(place, rest);
    const entries = await list(place.directory);
    const isMatch = createSegmentMatch(segment, hidden);
    const names = entries.filter(({ name }) => isMatch(name));
    await notePassedOver(place, entries, segment, isLast);
    if (isLast) {
      places.push({ path: place.path, directory: place.directory, entries });
      for (const { name, kind } of names) add(join(place.path, name), place.directory, kind);
    }
    const isNamed = isLast && !magic.test(segment);
    if (isNamed)
      passedOver.directory.push(...(await below(place, names, false)).map(({ path }) => path));
    if (isLast && !isDeep) return;
    for (const next of await below(place, names, isDeep))
      await walk(next, isDeep ? segments : rest);
  };

  for (const expanded of expandBraces(resolve(pattern))) {
    const segments = expanded.split("/").slice(1);
    const plain = segments.findIndex((segment) => magic.test(segment));
    const fixed = plain === -1 ? segments.length - 1 : plain;
    const base = `/${segments.slice(0, fixed).join("/")}`;
    const resolved = await files.resolve(base).catch((error: unknown) => {
      passedOver.unlisted.push(base);
      return nullIfDenied(error);
    });
    const directory = resolved?.path;
    if (directory !== undefined)
      await walk({ path: base, directory, above: [directory] }, segments.slice(fixed));
  }
  return [...found.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
};

/** A directory on the way of a walk. */
interface Place {
  /** As the pattern writes it. */
  readonly path: string;
  /** Without symbolic links. */
  readonly directory: string;
  /** The directories on the way to it, and itself, against circles. */
  readonly above: readonly string[];
}

/** Where a walk came to, and what it left out. */
interface Reached {
  readonly places: LastPlace[];
  readonly passedOver: PassedOver;
}

const createReached = (): Reached => ({
  places: [],
  passedOver: nothingPassedOver(),
});

/** A directory whose names the last part of a pattern matches. */
export interface LastPlace {
  readonly path: string;
  /** Without symbolic links. */
  readonly directory: string;
  readonly entries: readonly DirectoryEntry[];
}

/** Creates the walk of a pattern, which reads directories through `directories`. */
export const createWalk = (
  pattern: string,
  options: FilePatterns,
  { files, directories }: WalkDependencies,
) => {
  let found: readonly FoundPath[] = [];
  let reached = createReached();
  /** The links to directories by the entries that they are among. */
  const links: LinksByEntries = new WeakMap();
  /** The directories that were read for it, and what they had. */
  let read = new Map<string, readonly DirectoryEntry[]>();

  const listReadable = async (path: string, onDenied?: () => void) => {
    const entries = await directories.list(path).catch(nullIfDenied);
    if (entries === null) onDenied?.();
    return entries ?? noEntries;
  };

  const isUnchanged = async () => {
    for (const [path, entries] of read) if ((await listReadable(path)) !== entries) return false;
    return read.size > 0;
  };

  return {
    /** The directories in which its files lie, by the last call of `find`. */
    places: (): readonly LastPlace[] => reached.places,
    /** Returns the paths that the last call of `find` left out. */
    passedOver: () => reached.passedOver,
    /** Returns the paths in the order of names: the same array as before, if no directory on the way has changed. */
    find: async () => {
      if (await isUnchanged()) return found;
      const nowRead = new Map<string, readonly DirectoryEntry[]>();
      const nowReached = createReached();
      const list = async (path: string) => {
        const entries = await listReadable(path, () => nowReached.passedOver.unlisted.push(path));
        nowRead.set(path, entries);
        return entries;
      };
      found = await findPaths(pattern, options, { files, list, links }, nowReached);
      reached = nowReached;
      read = nowRead;
      return found;
    },
  };
};

/** A walk passes over what this user may not look at, as the shell does. */
const nullIfDenied = (error: unknown): null => {
  if (isDenied(error)) return null;
  throw error;
};

/** The characters of a segment that is not a plain name. */
const magic = /[*?[\]{}()!+@\\]/;

/** Segments of a star or two and plain characters. Each call of `matchesGlob` parses its pattern, which takes seconds for 100,000 names. */
const simple = /^[^*?[\]{}()!+@\\]*\*[^*?[\]{}()!+@\\]*(?:\*[^*?[\]{}()!+@\\]*)?$/;

/** Reports whether the patterns select a path. */
export const matches = ({ include, exclude }: FilePatterns, path: string): boolean =>
  include.some((pattern) => matchesGlob(path, pattern)) &&
  !exclude.some((pattern) => matchesGlob(path, pattern));

/** Expands braces that have a slash inside, which would not be one segment. */
export const expandBraces = (pattern: string): string[] => {
  for (let open = pattern.indexOf("{"); open !== -1; open = pattern.indexOf("{", open + 1)) {
    const close = pattern.indexOf("}", open);
    if (close === -1) break;
    const inside = pattern.slice(open + 1, close);
    if (!inside.includes("/") || inside.includes("{")) continue;
    const expand = (part: string) =>
      expandBraces(pattern.slice(0, open) + part + pattern.slice(close + 1));
    return inside.split(",").flatMap(expand);
  }
  return [pattern];
};

/** Returns the names of files, or of directories into which `**` would descend, that a segment matches only with `hidden`. */
const hiddenFrom = (
  entries: readonly DirectoryEntry[],
  segment: string,
  isLast: boolean,
): string[] => {
  const isDeep = segment === "**";
  const isVisible = createSegmentMatch(segment, false);
  const isMatch = createSegmentMatch(segment, true);
  return entries
    .filter(({ name, kind }) => name.startsWith(".") && (kind === "directory" ? isDeep : isLast))
    .map(({ name }) => name)
    .filter((name) => !isVisible(name) && isMatch(name));
};

/**
 * Returns `matchesGlob` of names for one segment of a pattern. Wildcards of the shell leave names out that begin with a dot; with `hidden`
 * the name matches as if it began with another character.
 */
export const createSegmentMatch = (
  written: string,
  hidden: boolean,
): ((name: string) => boolean) => {
  const segment = written === "**" ? "*" : written;
  const expression =
    simple.test(segment) &&
    new RegExp(`^${segment.replace(/[.^$|]/g, "\\$&").replace(/\*/g, ".*")}$`, "s");
  const isVisible = (name: string) => segment.startsWith(".") || !name.startsWith(".");
  const matches = (name: string) =>
    expression ? isVisible(name) && expression.test(name) : matchesGlob(name, segment);
  return (name) =>
    name === segment ||
    matches(name) ||
    (hidden && name.startsWith(".") && matches(`\u0001${name.slice(1)}`));
};
