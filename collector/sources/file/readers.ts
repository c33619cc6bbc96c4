/* Reads followed files: one loop for each mount, so that one that does not answer stops no other. */
import { dirname } from "node:path";
import { QueueClosedError } from "#collector/queue/errors.ts";
import { type Clock, minuteMs } from "#kit/clock.ts";
import type { SourceWarning } from "../source.ts";
import { type DirectoryWatch, isWatched } from "./directory-watch.ts";
import type { FollowedKind } from "./placement.ts";
import { type Tail, type TailReader, tailReadBytes } from "./tail.ts";
import { warningOf } from "./warnings.ts";

/** The poll interval: short after a read, longer while nothing changes, so that an idle host stays idle. */
const pollMs = { least: 100, most: 1_000, watched: 30_000 };
/** So many files are polled at these intervals; more of them at longer ones, so that all of them cost no more. */
const filesOfInterval = 1_000;
const retryMs = 1_000;
/** How long a rotated file, which no pattern matches any more, stays open for a writer that still uses it. */
const rotatedIdleMs = 5 * minuteMs;
/** The most compressed files of a mount that are read in turn: each takes a megabyte of memory. */
const packedMax = 8;

/** A followed file and when it is polled. */
export interface Followed {
  readonly tail: Tail;
  readonly kind: FollowedKind;
  /** Without symbolic links. */
  readonly directory: string;
  pauseMs: number;
  dueAt: number;
  /** Whether a call of its tail is under way. */
  isInUse: boolean;
}

/** Returns a file that is polled at once. */
export const followedFile = (tail: Tail, kind: FollowedKind): Followed => ({
  tail,
  kind,
  directory: dirname(tail.file.realPath),
  pauseMs: pollMs.least,
  dueAt: 0,
  isInUse: false,
});

interface Dependencies {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly signal: AbortSignal;
  readonly watch: DirectoryWatch;
  /** Reads and stores the next lines of a file; false if there was nothing to read. */
  step: TailReader["step"];
  /** Reports whether something of this file may be stored. */
  mayRead(tail: Tail): boolean;
  /** Reports whether a pattern finds the file under its path. */
  isFound(tail: Tail): boolean;
  /** Ends the following of a file to which nobody writes any more. */
  finish(tail: Tail, buffer: Buffer): Promise<void>;
  /** Reports why a file could not be read or stored. `reported` has what was reported in this round. */
  report(error: unknown, path: string, reported: Set<string>): void;
  /** Receives each round in which nothing failed. */
  readonly fault: { succeeded(): void };
}

/** Creates the loops that read `followed`. */
export const createReaders = (
  followed: ReadonlyMap<string, Followed>,
  { clock, signal, watch, step, mayRead, isFound, finish, report, fault }: Dependencies,
) => {
  const loops = new Map<string, { readonly ended: Promise<void>; readonly pause: Pause }>();

  const stretch = () => Math.max(1, followed.size / filesOfInterval);

  const hasEnded = ({ tail, kind }: Followed): boolean =>
    kind === "complete"
      ? tail.isExhausted
      : !isFound(tail) && clock.monotonic() - tail.changedAt >= rotatedIdleMs;

  /** Reads the next lines of a file, and decides when it is read again. Returns whether it had some. */
  const readNext = async (file: Followed, buffer: Buffer): Promise<boolean> => {
    const { tail, directory } = file;
    if (await step(tail, buffer, signal)) {
      watch.wrote(directory);
      file.pauseMs = pollMs.least;
      return true;
    }
    if (hasEnded(file)) await finish(tail, buffer);
    const isQuiet =
      file.pauseMs >= pollMs.most &&
      tail.size <= tail.position.offset &&
      watch.reports(directory, tail.file.mount.type);
    const pauseMs = isQuiet ? pollMs.watched : file.pauseMs;
    file.dueAt = clock.monotonic() + pauseMs * stretch();
    file.pauseMs = Math.min(file.pauseMs * 2, pollMs.most);
    return false;
  };

  /** Returns the files of a mount that are due, of those with one path the oldest that is not read to its end. */
  const dueFiles = (mountpoint: string): Followed[] => {
    const now = clock.monotonic();
    const oldest = new Map<string, Followed>();
    const due: Followed[] = [];
    for (const file of followed.values()) {
      const { tail, kind } = file;
      const before = oldest.get(tail.path);
      if (!tail.isExhausted && (!before || (before.kind === "live" && kind !== "live")))
        oldest.set(tail.path, file);
      if (file.dueAt <= now && tail.file.mount.mountpoint === mountpoint) due.push(file);
    }
    let packed = 0;
    return due.filter(
      (file) =>
        (file.tail.isExhausted || oldest.get(file.tail.path) === file) &&
        mayRead(file.tail) &&
        (file.kind !== "complete" || packed++ < packedMax),
    );
  };

  /** Returns how long no file of a mount is due. */
  const pauseOf = (mountpoint: string): number => {
    let dueAt = clock.monotonic() + pollMs.most;
    for (const file of followed.values())
      if (file.tail.file.mount.mountpoint === mountpoint) dueAt = Math.min(dueAt, file.dueAt);
    return Math.max(pollMs.least * stretch(), dueAt - clock.monotonic());
  };

  /** Reads one batch of each due file in turn, so that neither a busy nor a failing file starves the others. Returns when to go on. */
  const readRound = async (mountpoint: string, buffer: Buffer): Promise<number> => {
    let hasRead = false;
    const failed = new Set<string>();
    for (const file of dueFiles(mountpoint)) {
      // Closed meanwhile.
      if (file.isInUse || followed.get(file.tail.key) !== file) continue;
      file.isInUse = true;
      try {
        hasRead = (await readNext(file, buffer)) || hasRead;
      } catch (error) {
        signal.throwIfAborted();
        file.dueAt = clock.monotonic() + retryMs;
        report(error, file.tail.path, failed);
      } finally {
        file.isInUse = false;
      }
    }
    if (failed.size > 0) return hasRead ? 0 : retryMs;
    fault.succeeded();
    return hasRead ? 0 : pauseOf(mountpoint);
  };

  const readMount = (mountpoint: string) => {
    const buffer = Buffer.allocUnsafeSlow(tailReadBytes);
    const pause = createPause(clock, signal);
    const ended = whileRunning(signal, async () => {
      const pauseMs = await readRound(mountpoint, buffer);
      if (pauseMs > 0) await pause.wait(pauseMs);
    });
    return { ended, pause };
  };

  return {
    /** Reads a file from now on. */
    begin: ({ file: { mount } }: Tail) => {
      const { mountpoint } = mount;
      const loop = loops.get(mountpoint) ?? readMount(mountpoint);
      loops.set(mountpoint, loop);
      loop.pause.end();
    },
    /** Polls the files of a directory at once. */
    poll: (directory: string) => {
      for (const file of followed.values()) if (file.directory === directory) file.dueAt = 0;
      for (const { pause } of loops.values()) pause.end();
    },
    /** Returns why idle files are polled as often as others. */
    warnings: (): SourceWarning[] => {
      const files = [...followed.values()];
      const mounts = files.map(({ tail }) => tail.file.mount);
      return [
        ...warningOf(
          "polled",
          mounts.filter(({ type }) => !isWatched(type)).map(({ mountpoint }) => mountpoint),
          "polled, as this file system reports no changes",
          "note",
        ),
        ...warningOf(
          "watch_refused",
          files.map(({ directory }) => directory).filter(watch.isRefused),
          "polled, as the limit fs.inotify.max_user_watches or max_user_instances is reached",
          "note",
        ),
      ];
    },
    /** Resolves once no file is read any more. */
    ended: () => Promise.all(loops.values().map(({ ended }) => ended)),
  };
};

/** A wait that others can end. */
interface Pause {
  /** Waits so long; not at all if it was ended since the last wait. Rejects once the signal aborts. */
  wait(ms: number): Promise<void>;
  end(): void;
}

/** Creates the pauses of a loop. */
export const createPause = (clock: Pick<Clock, "sleep">, signal: AbortSignal): Pause => {
  let ending = new AbortController();
  const end = () => ending.abort("ended");
  signal.addEventListener("abort", end, { once: true });
  return {
    wait: async (ms) => {
      await clock.sleep(ms, ending.signal).catch(() => signal.throwIfAborted());
      if (ending.signal.aborted) ending = new AbortController();
    },
    end,
  };
};

/** Repeats `act` until the signal aborts or the queue is closed. */
export const whileRunning = async (
  signal: AbortSignal,
  act: () => Promise<void>,
): Promise<void> => {
  try {
    while (!signal.aborted) await act();
  } catch (error) {
    if (!signal.aborted && !(error instanceof QueueClosedError)) throw error;
  }
};
