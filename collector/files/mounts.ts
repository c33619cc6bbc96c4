/*
 * Calls of the file system, mount by mount: a mount that hangs (NFS without its server, a FUSE program that stopped) must block nothing else.
 * libuv runs all calls of `fs` on one pool of threads, and a call that hangs keeps its thread until the kernel answers. Invariants:
 * - At most one call of a mount is in the pool, so that a hung mount takes one thread. `reserveThreads` makes the pool larger than the mounts.
 * - A call whose mount does not answer rejects with `HungMountError`, also if it only waits for its turn. Later ones reject at once.
 * - A path is never resolved by the kernel across mounts: callers resolve symbolic links one by one and pass paths without links.
 */
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { type Clock, rfc3339 } from "#kit/clock.ts";

/** A mount that does not answer. */
export interface HungMount {
  readonly mountpoint: string;
  /** Wall time of the first call without an answer, milliseconds since the epoch. */
  readonly sinceMs: number;
}

/** A mount has not answered. The message names it. */
export class HungMountError extends Error {
  override readonly name = "HungMountError";
  constructor({ mountpoint, sinceMs }: HungMount) {
    super(`the file system at ${mountpoint} has not answered since ${rfc3339(sinceMs)}`);
  }
}

/** A mount. */
export interface Mount {
  readonly mountpoint: string;
  /** As in mountinfo: `ext4`, `nfs4`, `fuse.sshfs`. */
  readonly type: string;
  /**
   * Calls `act` once every earlier call has ended, and returns its result. Rejects with `HungMountError` if the mount does not answer; `onLate`
   * then receives a result that arrives after all, to close what it opened.
   */
  call<Result>(act: () => Promise<Result>, onLate?: (result: Result) => void): Promise<Result>;
  /**
   * Calls `act`, such as the closing of a file, once every earlier call has ended, however late. Resolves when it has ended, or at once if the
   * mount does not answer. Node ends a process in which an open `FileHandle` is collected as garbage: the call that waits keeps it.
   */
  release(act: () => Promise<void>): Promise<void>;
}

/** The mounts of this machine. */
export interface Mounts {
  /** Returns the mount of an absolute path without symbolic links. */
  of(path: string): Mount;
  hung(): readonly HungMount[];
}

/** How long callers wait for a mount, and after which time it counts as hung: a disk that retries a bad sector answers within seconds. */
const answerMs = 2_000;
const hungMs = 10_000;
const checkMs = 500;
/** How long a list of mounts is used. */
const listMs = 5_000;

interface WaitingCall {
  act(): Promise<void>;
  reject(error: HungMountError): void;
  /** Whether it waits although the mount does not answer. */
  readonly isPatient: boolean;
}

interface MountCalls extends Mount {
  current:
    | { readonly call: WaitingCall; readonly startedAt: number; readonly sinceMs: number }
    | undefined;
  waiting: WaitingCall[];
  isHung: boolean;
}

/** Creates the mounts that `read` lists in the form of /proc/self/mountinfo; without such a list, all paths are of one mount. */
export const createMounts = (
  clock: Pick<Clock, "now" | "monotonic" | "sleep">,
  read: () => string = readMountInfo,
): Mounts => {
  let byPoint = new Map<string, MountCalls>();
  let listedAt = Number.NEGATIVE_INFINITY;
  const busy = new Set<MountCalls>();
  let isWatching = false;

  const list = () => {
    const listed = new Map<string, MountCalls>();
    for (const { mountpoint, type } of parseMountInfo(read()))
      listed.set(mountpoint, byPoint.get(mountpoint) ?? createCalls(mountpoint, type));
    byPoint = listed;
    listedAt = clock.monotonic();
  };

  /** Rejects the calls of mounts that do not answer, as long as there are calls. */
  const watch = async () => {
    isWatching = true;
    while (busy.size > 0) {
      await clock.sleep(checkMs);
      for (const mount of busy) {
        const { current } = mount;
        if (current === undefined || clock.monotonic() - current.startedAt < answerMs) continue;
        mount.isHung = true;
        const error = new HungMountError({ ...mount, sinceMs: current.sinceMs });
        for (const { reject } of [current.call, ...mount.waiting]) reject(error);
        mount.waiting = mount.waiting.filter(({ isPatient }) => isPatient);
      }
    }
    isWatching = false;
  };

  const runNext = (mount: MountCalls) => {
    const call = mount.waiting.shift();
    if (call === undefined) {
      mount.current = undefined;
      busy.delete(mount);
      return;
    }
    mount.current = { call, startedAt: clock.monotonic(), sinceMs: clock.now() };
    busy.add(mount);
    const next = () => {
      mount.isHung = false;
      runNext(mount);
    };
    void call.act().then(next, next);
    if (!isWatching) void watch();
  };

  const createCalls = (mountpoint: string, type: string): MountCalls => {
    const mount: MountCalls = {
      mountpoint,
      type,
      current: undefined,
      waiting: [],
      isHung: false,
      call: <Result>(act: () => Promise<Result>, onLate?: (result: Result) => void) => {
        if (mount.isHung)
          return Promise.reject(
            new HungMountError({ mountpoint, sinceMs: mount.current?.sinceMs ?? clock.now() }),
          );
        const { promise, resolve, reject } = Promise.withResolvers<Result>();
        let isLate = false;
        mount.waiting.push({
          act: () =>
            act().then((result) => {
              if (isLate) onLate?.(result);
              else resolve(result);
            }, reject),
          reject: (error) => {
            isLate = true;
            reject(error);
          },
          isPatient: false,
        });
        if (mount.current === undefined) runNext(mount);
        return promise;
      },
      release: (act) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        mount.waiting.push({
          act: () => act().finally(resolve),
          reject: () => resolve(),
          isPatient: true,
        });
        if (mount.isHung) resolve();
        if (mount.current === undefined) runNext(mount);
        return promise;
      },
    };
    return mount;
  };

  const whole = createCalls("/", "unknown");

  return {
    of: (path) => {
      if (clock.monotonic() - listedAt >= listMs) list();
      for (let at = path; ; at = dirname(at)) {
        const mount = byPoint.get(at);
        if (mount !== undefined) return mount;
        if (at === dirname(at)) return whole;
      }
    },
    hung: () =>
      [...busy]
        .filter(({ current }) => current && clock.monotonic() - current.startedAt >= hungMs)
        .map(({ mountpoint, current }) => ({
          mountpoint,
          sinceMs: current?.sinceMs ?? clock.now(),
        })),
  };
};

/** Returns the list of this process's mounts; empty without Linux's /proc. */
const readMountInfo = (): string => {
  try {
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return "";
  }
};

/** Parses mountinfo (proc_pid_mountinfo(5)); a later mount at the same place hides an earlier one. */
const parseMountInfo = (text: string): { mountpoint: string; type: string }[] =>
  text.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ");
    const mountpoint = before.split(" ")[4];
    return mountpoint === undefined
      ? []
      : [{ mountpoint: unescapeOctal(mountpoint), type: after.split(" ")[0] ?? "" }];
  });

/** Replaces `\040` and the like, which the kernel writes for blanks, line feeds and backslashes. */
export const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );

/** The most threads that the pool may have. */
const threadsMax = 128;

/**
 * Makes libuv's pool larger than the mounts by four threads. Must run before the first call of `fs` that uses the pool: libuv reads the
 * variable then, and never again.
 */
export const reserveThreads = (environment: NodeJS.ProcessEnv): void => {
  const mounts = parseMountInfo(readMountInfo()).length;
  environment.UV_THREADPOOL_SIZE ??= String(Math.min(mounts + 4, threadsMax));
};
