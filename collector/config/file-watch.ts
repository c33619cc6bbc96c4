import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../../kit/clock.ts";

/** Looks at a few files. */
export interface FileWatch {
  /**
   * Resolves when one of the files is another one, or has another content, than when it last resolved (at first: than when the
   * watch was made). With `eager` it also resolves at every look without a change. Rejects with the signal's reason.
   */
  next(signal: AbortSignal, eager?: boolean): Promise<void>;
  close(): void;
}

/** File events trigger a look; where there are none (network file systems, some containers), this finds every change. */
const pollMs = 5_000;
/** Who writes a file often writes it in several steps. */
const settleMs = 100;

/** Watches `paths`, and through symbolic links what they name. A file that is missing is watched for. */
export const watchFiles = async (paths: readonly string[], { clock }: { clock: Clock }): Promise<FileWatch> => {
  let seen = await lookAt(paths);
  let wake = Promise.withResolvers<void>();
  // The directory of `current/tls.crt` is watched, and the one in which the link `current` changes.
  const directories = new Set(paths.flatMap((path) => [dirname(path), dirname(dirname(path))]));
  const watchers = [...directories].flatMap((directory) => watchDirectory(directory, () => wake.resolve()));
  return {
    next: async (signal, eager = false) => {
      for (;;) {
        wake = Promise.withResolvers();
        const pause = new AbortController();
        const slept = clock.sleep(pollMs, AbortSignal.any([signal, pause.signal]));
        const woken = wake.promise.then(() => clock.sleep(settleMs, signal));
        slept.catch(() => undefined);
        woken.catch(() => undefined);
        await Promise.race([slept, woken]);
        pause.abort();
        const found = await lookAt(paths);
        if (found === seen && !eager) continue;
        seen = found;
        return;
      }
    },
    close: () => {
      for (const watcher of watchers) watcher.close();
    },
  };
};

const lookAt = async (paths: readonly string[]): Promise<string> => {
  const found = await Promise.all(paths.map((path) => stat(path, { bigint: true }).catch(() => null)));
  return found.map((stats) => stats && [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.mode].join()).join(";");
};

const watchDirectory = (directory: string, onEvent: () => void): FSWatcher[] => {
  try {
    const watcher = watch(directory, { persistent: false }, onEvent);
    watcher.on("error", () => undefined); // a directory that goes away, or too many watches: looks go on without it
    return [watcher];
  } catch {
    return [];
  }
};
