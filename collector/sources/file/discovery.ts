/*
 * Finds the files of a `file` source, follows them, and accounts for what is lost. Never waits for room in the queue. Invariants:
 * - A file is followed from the moment at which it is found, by its descriptor, whatever happens to its name and however full the queue is.
 * - Where its reading begins is stored before anything of it.
 * - A position whose content is nowhere is a gap: of the bytes that the file was known to have, or of an unknown number. The gap is stored in
 *   one transaction with the end of the position.
 */
import { basename, join, matchesGlob } from "node:path";
import { HungMountError } from "#collector/files/mounts.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import { minuteMs } from "#kit/clock.ts";
import type { FileRules, PositionedSourceDependencies } from "../source.ts";
import type { Encoding } from "./charset.ts";
import { createDirectories, type Directories } from "./directories.ts";
import type { DirectoryWatch } from "./directory-watch.ts";
import { type Candidate, createFileOpener, type FileOpener } from "./file-opener.ts";
import { findUnusedLedgers, type Ledgers, ledgerKey } from "./ledger.ts";
import { createLosses, type Gap } from "./losses.ts";
import type { MultilineConfig } from "./multiline.ts";
import { createNeighbours } from "./neighbours.ts";
import { createPatternFiles, type FollowedName } from "./pattern-files.ts";
import { type Placed, type Placement, placeCandidates } from "./placement.ts";
import {
  checkpointOf,
  cutKey,
  directoryOf,
  fileCheckpoints,
  type Position,
  parsePosition,
} from "./position.ts";
import type { FileStat, SourceFiles } from "./source-files.ts";
import type { Tail } from "./tail.ts";
import { createUndecidedFiles } from "./undecided-files.ts";
import { type FilePatterns, matches } from "./walk.ts";

/** The config of a `file` source (docs/collector-config.md). */
export interface FileSourceConfig extends FilePatterns {
  /** `file` unless given. */
  readonly name?: string;
  /** Where to start in files that exist at the first discovery; later ones are read from their start. */
  readonly startAt: "beginning" | "end";
  /** Which of these files it may read. */
  readonly rules: FileRules;
  /** The most files that are open at once; the others wait in turn. */
  readonly maxHeldFiles?: number;
  /** The most megabytes that deleted files hold, which are closed unread then. */
  readonly maxHeldMb?: number;
  /** A last line without its end is stored after so many milliseconds. */
  readonly partialAfterMs?: number;
  /** `utf-8` unless given. */
  readonly encoding?: Encoding;
  /** How lines are joined to records; without it, each is one. */
  readonly multiline?: MultilineConfig | undefined;
  /** `containers`: they are logs of containers. */
  readonly preset?: "containers" | undefined;
  /** The labels of pods that their records have. */
  readonly podLabels?: readonly string[] | undefined;
}

/** The dependencies of discovery. */
export interface DiscoveryDependencies
  extends Pick<PositionedSourceDependencies, "append" | "checkpoints" | "clock" | "log"> {
  files: SourceFiles;
  watch: Pick<DirectoryWatch, "since">;
  ledgers: Ledgers;
  /** The followed files, by their keys. */
  tails: ReadonlyMap<string, Tail>;
  follow(placed: Placed): void;
  /** Receives why a generation of a name that was followed before cannot be opened: its lines may be lost. */
  unopened(path: string, error: unknown): void;
  /** Reports whether another file may be opened beside so many that are not followed yet. */
  hasRoom(opened: number): boolean;
  /** Reports whether a file was closed at its end to make room, and has not changed since. */
  isParked(stat: FileStat): boolean;
  signal: AbortSignal;
}

/** How often the ledgers of deleted names are removed. */
const pruneMs = 10 * minuteMs;

/** Reports whether a key is of a position, not of a pattern or a ledger. */
const isPositionKey = (key: string): boolean => !/^(?:pattern|read):/.test(key);

/** The discovery of a source. */
export type Discovery = ReturnType<typeof createDiscovery>;

/** Creates the discovery of a source. */
export const createDiscovery = (config: FileSourceConfig, dependencies: DiscoveryDependencies) => {
  const { clock, log, checkpoints, ledgers, tails, files } = dependencies;
  const { name: source = "file", startAt, rules } = config;
  const isOurs = createPathCheck(config);
  /** Checkpoints and gaps that are decided and not stored yet. */
  const pending: Checkpoint[] = [];
  const gaps: Gap[] = [];
  const cuts = createCuts(dependencies);
  /** Directories to look into again, though nothing in them has changed. */
  let directoriesToRevisit: ReadonlySet<string> = new Set();
  /** Whether stored positions may be left that nothing follows. */
  let hasUnfinished = true;
  /** Whether the last pass ended before it had decided on everything. */
  let hasFailed = false;
  /** Those that the last pass has not found, and whether nobody had looked for a while before. */
  let missed = new Map<string, boolean>();

  const findUnfinished = () => findPositions(checkpoints(fileCheckpoints), tails, isOurs);

  const undecided = createUndecidedFiles(clock);
  const directories = createDirectories(files, clock, dependencies.watch);
  const opener = createFileOpener({ source, rules }, { files, log }, dependencies.hasRoom);
  const shared = {
    ...dependencies,
    directories,
    opener,
    isFollowed: (key: string) => tails.has(key) || undecided.has(key),
  };
  const patternFiles = createPatternFiles(config, {
    ...shared,
    knownPaths: () => [...tails.values(), ...findUnfinished().values()].map(({ path }) => path),
  });
  const neighbours = createNeighbours(shared);
  const isFound = ({ path, key }: Tail) => patternFiles.isFound(path, key);
  const losses = createLosses({ ...shared, source, isFound, wasBlind: neighbours.wasBlind });

  /**
   * Gives up the positions that two passes have not found, except where they may still turn up, which it leaves in `unfinished`: names may have
   * moved on while one pass looked at them.
   */
  const giveUpAll = async (unfinished: Map<string, Position>, { incomplete }: Placement) => {
    const before = missed;
    missed = new Map();
    for (const [key, position] of unfinished) {
      const { path } = position;
      const directory = directoryOf(position);
      const id = identify(position);
      const mayHaveGrown = before.get(id) || neighbours.wasBlind(directory);
      missed.set(id, mayHaveGrown);
      const isSettled =
        before.has(id) &&
        !incomplete.has(directory) &&
        patternFiles.isWalked(path) &&
        !patternFiles.isFound(path, key) &&
        (await neighbours.isComplete(directory));
      if (!isSettled) continue;
      await losses.giveUp(key, position, mayHaveGrown);
      unfinished.delete(key);
    }
  };

  /** Opens all files that are to be decided on. */
  const findCandidates = async (
    newPatterns: ReadonlySet<string>,
    unfinished: ReadonlyMap<string, Position>,
  ): Promise<Candidate[]> => {
    const found = await patternFiles.lookAll(newPatterns, hasFailed);
    const unfinishedIn = new Set([...unfinished.values()].map(directoryOf));
    const names = [
      ...patternFiles.rotatedAwayNames(newPatterns),
      ...tails.values().map(({ path, file }) => ({ path, realPath: file.realPath })),
      ...found.map(({ base, file }) => ({ path: base, realPath: file.realPath })),
      ...unfinished.values().map(nameOf),
    ];
    try {
      const beside = await neighbours.lookBeside(names, {
        mustLook: (directory) =>
          hasFailed || unfinishedIn.has(directory) || directoriesToRevisit.has(directory),
        isOfNewPattern: (path) =>
          newPatterns.values().some((pattern) => matchesGlob(path, pattern)),
      });
      return [...found, ...beside, ...undecided.take()];
    } catch (error) {
      for (const { file } of found) await file.close();
      throw error;
    }
  };

  /** Follows what was decided on, and stores where it begins. */
  const begin = async (placement: Placement, newPatterns: ReadonlySet<string>) => {
    undecided.add(placement.undecided);
    pending.push(...placement.checkpoints);
    gaps.push(...losses.gapsOf(placement));
    for (const placed of placement.placed) dependencies.follow(placed);
    // In one transaction with the marker: after a crash in between, "end" would mean a later end.
    for (const pattern of newPatterns)
      pending.push({ source: fileCheckpoints, key: `pattern:${pattern}`, value: "" });
    await ledgers.storeChanges((changes) => losses.store(gaps, [...pending, ...changes]));
    pending.length = 0;
    gaps.length = 0;
  };

  const prune = createPruning(dependencies, {
    isInUse: (path) => !isOurs(path) || tails.values().some((tail) => tail.path === path),
    directories,
  });

  /** Reports whether a pass has nothing to decide on, as long as nothing has changed. */
  const isSettled = () =>
    !hasFailed &&
    cuts.isEmpty() &&
    directoriesToRevisit.size === 0 &&
    !hasUnfinished &&
    pending.length === 0 &&
    opener.waiting() === 0 &&
    !losses.hasMissed() &&
    !neighbours.hasUnopened();

  /** Decides what the found files are, and follows them. Settles the paths that were cut before the pass. */
  const decide = async (cutBefore: readonly string[]) => {
    opener.beginPass();
    const newPatterns = newPatternsOf(patternFiles.walkedPatterns(), checkpoints(fileCheckpoints));
    const unfinished = findUnfinished();
    const candidates = await findCandidates(newPatterns, unfinished);
    hasFailed = true;
    const placement = await placeCandidates(candidates, {
      files,
      ledgers,
      startAt,
      unfinished,
      tailsOf: (path) => tails.values().filter((tail) => tail.path === path),
      cutsOf: cuts.of,
      isFollowed: (key) => tails.has(key),
    });
    await begin(placement, newPatterns);
    for (const { path, error } of placement.failed) opener.warn(path, error);
    reportUnopened(dependencies, opener);
    await giveUpAll(unfinished, placement);
    await losses.countUnseen(placement);
    await losses.countUnopened(neighbours.isComplete);
    directoriesToRevisit = placement.incomplete;
    hasUnfinished = unfinished.size > 0;
    const stillCut = new Set(unfinished.values().map(({ path }) => path));
    cuts.settle(cutBefore.filter((path) => !stillCut.has(path)));
    await prune();
    hasFailed = false;
  };

  /** Looks for files, decides what they are, and follows them. */
  const run = async () => {
    const cut = cuts.paths();
    const wasSettled = isSettled();
    // Events arrive late: a pass that has to decide on something looks for itself.
    directories.beginPass(!wasSettled);
    const hasChanged = await patternFiles.beginPass();
    neighbours.beginPass(patternFiles.listed());
    const mayUndecidedDiffer = await undecided.mayDiffer();
    if (!wasSettled || hasChanged || mayUndecidedDiffer) await decide(cut);
    neighbours.endPass();
  };

  return {
    run,
    /** Reports whether something of this file may be stored: where it begins is, and what its path had before is followed. */
    mayRead: ({ path }: Tail) => pending.length === 0 && cuts.of(path).length === 0,
    isFound,
    store: losses.store,
    /** A stored position is not followed any more: the next pass looks for what continues it. */
    expectUnfinished: () => {
      hasUnfinished = true;
    },
    truncated: cuts.add,
    close: undecided.close,
    counters: () => ({ ...losses.counts(), waiting: opener.waiting() }),
    warnings: () => [...patternFiles.warnings(), ...opener.warnings()],
  };
};

const newPatternsOf = (patterns: readonly string[], known: ReadonlyMap<string, string>) =>
  new Set(patterns.filter((pattern) => !known.has(`pattern:${pattern}`)));

/** Reports the files of followed names that cannot be opened. */
const reportUnopened = (
  { checkpoints, tails, unopened }: DiscoveryDependencies,
  opener: Pick<FileOpener, "failures">,
): void => {
  const saved = checkpoints(fileCheckpoints);
  const followed = new Set(tails.values().map(({ path }) => path));
  for (const [path, error] of opener.failures())
    if (followed.has(path) || saved.has(ledgerKey(path))) unopened(path, error);
};

/** Keeps what truncated files had, by their paths, until a pass has looked for it: what they have now is read afterwards. */
const createCuts = ({ append, signal }: DiscoveryDependencies) => {
  const cuts = new Map<string, readonly Position[]>();
  const cutsOf = (path: string) => cuts.get(path) ?? [];
  return {
    of: cutsOf,
    isEmpty: () => cuts.size === 0,
    paths: () => [...cuts.keys()],
    settle: (paths: readonly string[]) => {
      for (const path of paths) cuts.delete(path);
    },
    /** Stores the position before a truncation, for which the next pass looks for a copy, and the one after it. */
    add: async (key: string, before: Position, after: Position) => {
      await append([], {
        checkpoints: [checkpointOf(key, after), checkpointOf(cutKey(key, before), before)],
        signal,
      });
      cuts.set(before.path, [...cutsOf(before.path), before]);
    },
  };
};

/** Creates a function that forgets the ledgers of names that are gone, from time to time. */
const createPruning = (
  { append, checkpoints, clock, ledgers, signal }: DiscoveryDependencies,
  { isInUse, directories }: { isInUse(path: string): boolean; directories: Directories },
) => {
  let prunedAt = clock.monotonic();
  return async () => {
    if (clock.monotonic() - prunedAt < pruneMs) return;
    prunedAt = clock.monotonic();
    const ended = await findUnusedLedgers(
      checkpoints(fileCheckpoints),
      isInUse,
      async (directory) => {
        const entries = await directories.list(directory).catch(() => undefined);
        return entries?.map(({ name }) => name);
      },
    );
    for (const path of ended) ledgers.forget(path);
    if (ended.length > 0)
      await append([], {
        checkpoints: ended.map((path) => ({
          source: fileCheckpoints,
          key: ledgerKey(path),
          value: null,
        })),
        signal,
      });
  };
};

/** Returns the positions among the checkpoints that nothing follows and whose paths `hasPath` selects, by their keys. */
const findPositions = (
  checkpoints: ReadonlyMap<string, string>,
  followed: ReadonlyMap<string, unknown>,
  hasPath: (path: string) => boolean,
): Map<string, Position> => {
  const found = new Map<string, Position>();
  for (const [key, value] of checkpoints) {
    const position = isPositionKey(key) && !followed.has(key) ? parsePosition(value) : null;
    if (position !== null && hasPath(position.path)) found.set(key, position);
  }
  return found;
};

/** Returns what a position is known by, whatever its key is. */
const identify = ({ path, offset, head, mark = head }: Position): string =>
  `${path}:${offset}:${mark.sha256}`;

/** Returns where the file of a position was. */
const nameOf = (position: Position): FollowedName => ({
  path: position.path,
  realPath: join(directoryOf(position), basename(position.path)),
});

/** Creates the check that patterns select a path, which remembers its answers. */
const createPathCheck = (config: FilePatterns) => {
  const known = new Map<string, boolean>();
  return (path: string): boolean => {
    const isOurs = known.get(path) ?? matches(config, path);
    known.set(path, isOurs);
    return isOurs;
  };
};

/** Reports whether an error is of a mount that does not answer. */
export const isHung = (error: unknown): boolean => error instanceof HungMountError;
