/*
 * Decides what the files are that discovery has found, by their content. A candidate is one of these, in this order:
 * 1. The rest of an unfinished position: it continues there, under whatever name, device or inode it lies now.
 * 2. A copy of a followed file, also an interrupted one: what is unread of it is read from that file.
 * 3. A generation that is read already, or its copy (ledger.ts).
 * 4. A generation that is older than the following of its name: the ledger takes it, and it is never read.
 * 5. A new file, or a generation that was never seen: it is read whole.
 * Files are decided in the order of their age, so that generations are read oldest first.
 */
import { dirname } from "node:path";
import type { Checkpoint } from "#collector/queue/record.ts";
import { createFileComparisons, isContinued } from "./file-comparisons.ts";
import type { Candidate } from "./file-opener.ts";
import { type Ledgers, readGeneration } from "./ledger.ts";
import {
  cutKey,
  directoryOf,
  fileCheckpoints,
  fileKey,
  headOf,
  type Position,
  savePosition,
} from "./position.ts";
import type { LogFile, SourceFiles } from "./source-files.ts";
import type { Tail } from "./tail.ts";
import { createUnpacking } from "./unpacking.ts";

/** `live`: a pattern found it. `rotated`: it lay beside such a file. `complete`: nobody writes to it any more. */
export type FollowedKind = "live" | "rotated" | "complete";

/** A file that is to be followed. */
export interface Placed {
  readonly key: string;
  readonly file: LogFile;
  readonly position: Position;
  readonly kind: FollowedKind;
}

/** The input of a placement. */
export interface PlacementContext {
  readonly files: Pick<SourceFiles, "packed">;
  readonly ledgers: Ledgers;
  readonly startAt: "beginning" | "end";
  /** Stored positions that nothing follows, by their keys. Those that continue are removed. */
  readonly unfinished: Map<string, Position>;
  tailsOf(path: string): Iterable<Tail>;
  /** Returns the positions of a path before its truncations, also of those after `unfinished` was read. */
  cutsOf(path: string): readonly Position[];
  isFollowed(key: string): boolean;
}

/** The decisions on the candidates of a pass. */
export interface Placement {
  readonly placed: readonly Placed[];
  /** To be stored before anything of the placed files is. */
  readonly checkpoints: readonly Checkpoint[];
  /** Open files to be decided on again: copies of followed ones, which may turn out to be truncated, and compressed ones. */
  readonly undecided: readonly Candidate[];
  /** Bytes that a file was known to have and that its continuation lacks. */
  readonly missing: readonly { readonly path: string; readonly bytes: number }[];
  /** Names of which generations may be missing: never followed before, with generations to be read, or with files that begin alike. */
  readonly firstSeen: ReadonlySet<string>;
  /** Directories with files that could not be decided on yet. */
  readonly incomplete: ReadonlySet<string>;
  /** Why candidates could not be read. */
  readonly failed: readonly { readonly path: string; readonly error: unknown }[];
}

/** Decides on candidates. Closes the files of those that are not to be followed; all of them if it throws. */
export const placeCandidates = async (
  candidates: readonly Candidate[],
  context: PlacementContext,
): Promise<Placement> => {
  const placement = createPlacement(context);
  const left = new Set(candidates.toSorted(byAge));
  try {
    await placement.resumeByKey(left);
    placement.cutReplaced(left);
    await placement.unpackAll(left);
    await placement.resumeByContent(left);
    for (const candidate of [...left]) {
      await placement.attempt(left, candidate, () => placement.place(candidate));
      left.delete(candidate);
    }
    return placement.decided();
  } catch (error) {
    const { placed, undecided } = placement.decided();
    for (const { file } of [...left, ...placed, ...undecided])
      await file.close().catch(() => undefined);
    throw error;
  }
};

const createPlacement = (context: PlacementContext) => {
  const { ledgers, startAt, unfinished, tailsOf } = context;
  const { placement, write, follow, resume, markAsRead } = createDecisions(context);
  const comparisons = createFileComparisons(context, placement.placed);
  const { isSeen, isReadBeginning, isReadElsewhere, isCopy } = comparisons;
  /** Names that were followed before. Collectors that saved no sizes kept no ledgers: what lies beside their files may be read already. */
  const known = new Map<string, boolean>(
    [...unfinished.values()].flatMap(({ path, size }) =>
      size === undefined ? [] : [[path, true] as const],
    ),
  );

  /** Reports whether a name was followed before this pass. */
  const isKnown = (path: string): boolean => {
    const answer = known.get(path) ?? (ledgers.of(path).isKnown || [...tailsOf(path)].length > 0);
    known.set(path, answer);
    return answer;
  };

  /** Reports whether a file is a generation from before the following of its name. */
  const isOlder = ({ base, origin, isOfNewPattern }: Candidate): boolean =>
    isOfNewPattern && origin === "beside" && !isKnown(base);

  const unpack = createUnpacking(context, placement, isOlder);

  /** Notes that a generation to be read lies beside a name that was never followed: older ones may be gone. */
  const noteFirstSeen = ({ base, origin }: Candidate) => {
    if (origin !== "live" && !isKnown(base)) placement.firstSeen.add(base);
  };

  /** Returns how much of a file is read, by the ledger, into which it puts files that are older than the following of their name. */
  const findRead = async (candidate: Candidate): Promise<number | "all" | undefined> => {
    const { file, base } = candidate;
    const { size } = file.stat;
    const read = size === 0 ? undefined : await ledgers.of(base).find(file);
    if (read) return read.size === size ? "all" : read.size;
    if (isOlder(candidate)) {
      await markAsRead(candidate);
      return "all";
    }
    noteFirstSeen(candidate);
    return undefined;
  };

  /** Reports whether a candidate continues a position and is read from no other file. */
  const isContinuing = async (candidate: Candidate, position: Position): Promise<boolean> =>
    dirname(candidate.file.realPath) === directoryOf(position) &&
    (await isContinued(candidate, position)) &&
    !(await isReadElsewhere(candidate, position.offset));

  const isRead = async ({ file, base }: Candidate): Promise<boolean> =>
    file.stat.size > 0 && (await ledgers.of(base).find(file))?.size === file.stat.size;

  /** Runs a decision on a candidate. One that cannot be read is closed, and looked at again by the next pass: it holds up no other. */
  const attempt = async <Result>(
    left: Set<Candidate>,
    candidate: Candidate,
    decide: () => Result | Promise<Result>,
  ): Promise<Result | undefined> => {
    try {
      return await decide();
    } catch (error) {
      const { file } = candidate;
      left.delete(candidate);
      placement.failed.push({ path: file.path, error });
      placement.incomplete.add(dirname(file.realPath));
      await file.close().catch(() => undefined);
      return undefined;
    }
  };

  /** Returns those of `unread` that continue a position. */
  const findContinuing = async (
    left: Set<Candidate>,
    unread: Set<Candidate>,
    position: Position,
  ): Promise<Candidate[]> => {
    const continuing: Candidate[] = [];
    for (const candidate of [...unread]) {
      if (await attempt(left, candidate, () => isContinuing(candidate, position)))
        continuing.push(candidate);
      if (!left.has(candidate)) unread.delete(candidate);
    }
    return continuing;
  };

  return {
    decided: (): Placement => placement,
    attempt,

    /** Continues positions in the files that have their device, inode and content. */
    resumeByKey: async (left: Set<Candidate>) => {
      for (const candidate of left) {
        const key = fileKey(candidate.file.stat);
        const position = unfinished.get(key);
        if (candidate.form !== "plain" || !position) continue;
        if (!(await attempt(left, candidate, () => isContinued(candidate, position)))) continue;
        left.delete(candidate);
        resume(candidate, key, position);
      }
    },

    /** Keeps positions apart whose device and inode another content has now: the file was truncated or is gone. */
    cutReplaced: (left: ReadonlySet<Candidate>) => {
      for (const { file } of left) {
        const key = fileKey(file.stat);
        const position = unfinished.get(key);
        if (position === undefined) continue;
        const cut = cutKey(key, position);
        unfinished.delete(key);
        unfinished.set(cut, position);
        write(key, null);
        write(cut, savePosition(position));
      }
    },

    /** Replaces compressed files by their contents, unless those are known or not measured yet. */
    unpackAll: async (left: Set<Candidate>) => {
      for (const candidate of [...left]) {
        if (candidate.form !== "packed") continue;
        const content = await attempt(left, candidate, () => unpack(candidate));
        left.delete(candidate);
        // Its name may be followed once it is unpacked.
        if (content === "undecided") noteFirstSeen(candidate);
        else if (content) left.add(content);
      }
    },

    /**
     * Continues positions whose files have another key now. Of several copies, in the most complete one; of several positions with the same
     * beginning, the one that is further decides first.
     */
    resumeByContent: async (left: Set<Candidate>) => {
      const unread = new Set<Candidate>();
      for (const candidate of [...left])
        if ((await attempt(left, candidate, () => isRead(candidate))) === false)
          unread.add(candidate);
      for (const [key, position] of byOffset(unfinished)) {
        const continuing = await findContinuing(left, unread, position);
        const [longest] = continuing.toSorted((a, b) => b.file.stat.size - a.file.stat.size);
        // Files that begin alike: it may be another one, which is gone.
        const alike = continuing.filter(({ base }) => base === position.path);
        if (alike.length > 1) placement.firstSeen.add(position.path);
        if (longest === undefined) continue;
        left.delete(longest);
        unread.delete(longest);
        resume(longest, key, position);
      }
    },

    place: async (candidate: Candidate): Promise<void> => {
      const { file, base, isOfNewPattern } = candidate;
      const { size } = file.stat;
      if (isSeen(candidate)) return await file.close();
      if (await isCopy(candidate)) {
        // Also an interrupted copy is not read once its original is gone.
        if ((await isReadBeginning(candidate)) && !(await isRead(candidate)))
          await markAsRead(candidate);
        placement.undecided.push(candidate);
        return;
      }
      const read = await findRead(candidate);
      if (read === "all") return await file.close();
      const isAtEnd = isOfNewPattern && startAt === "end";
      const offset = read ?? (isAtEnd ? size : 0);
      const position = await positionIn(file, base, offset);
      follow(candidate, position);
    },
  };
};

/** Returns the position `offset` in a file that is reported under `path`. */
const positionIn = async (file: LogFile, path: string, offset: number): Promise<Position> => {
  const directory = dirname(file.realPath);
  const { head, mark } = await readGeneration(file, offset);
  return {
    path,
    // Only if the path leads there through a symbolic link.
    directory: directory === dirname(path) ? undefined : directory,
    offset,
    head: offset === 0 ? await headOf(file, file.stat.size) : head,
    mark,
    size: file.stat.size,
  };
};

/** Creates what is decided in a pass. */
const createDecisions = ({ ledgers, unfinished }: PlacementContext) => {
  const placement = {
    placed: [] as Placed[],
    checkpoints: [] as Checkpoint[],
    undecided: [] as Candidate[],
    missing: [] as Placement["missing"][number][],
    firstSeen: new Set<string>(),
    incomplete: new Set<string>(),
    failed: [] as Placement["failed"][number][],
  };

  const write = (key: string, value: string | null) =>
    placement.checkpoints.push({ source: fileCheckpoints, key, value });

  const follow = (candidate: Candidate, position: Position) => {
    const { file, form, origin } = candidate;
    const key = fileKey(file.stat);
    const ofPlain = origin === "live" ? "live" : "rotated";
    const kind = form === "plain" ? ofPlain : "complete";
    write(key, savePosition(position));
    placement.placed.push({ key, file, position, kind });
  };

  return {
    placement,
    write,
    follow,
    /** Follows a file from an unfinished position on. */
    resume: (candidate: Candidate, key: string, position: Position) => {
      const { size } = candidate.file.stat;
      unfinished.delete(key);
      if (key !== fileKey(candidate.file.stat)) write(key, null);
      const { path, size: knownSize = size } = position;
      if (knownSize > size) placement.missing.push({ path, bytes: knownSize - size });
      follow(candidate, { ...position, size });
    },
    /** Adds a file to the ledger, so that it is never read. */
    markAsRead: async ({ file, base }: Candidate) => {
      const entry = await readGeneration(file, file.stat.size);
      ledgers.of(base).add(entry);
    },
  };
};

/** The oldest first. Of files of one instant, such as `app.log.1` and `app.log.2`, the one with the higher number is older. */
const byAge = ({ file: one }: Candidate, { file: other }: Candidate): number =>
  one.stat.mtimeMs - other.stat.mtimeMs || generationOf(other) - generationOf(one);

/** Returns positions, the one with the most that was read first. */
const byOffset = (positions: ReadonlyMap<string, Position>): [string, Position][] =>
  [...positions].sort(([, one], [, other]) => other.offset - one.offset);

const generationOf = ({ realPath }: LogFile): number =>
  Number(/\.(\d{1,4})(?:\.gz)?$/.exec(realPath)?.[1] ?? 0);
