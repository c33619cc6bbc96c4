import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "#kit/clock.ts";

/** A watch on a few files. */
interface FileWatch {
  /**
   * Resolves when a file was replaced or changed since it last resolved, at first since the watch was created. With `eager` it also
   * resolves after every check without a change. Rejects with the signal's reason.
   */
  next(signal: AbortSignal, eager?: boolean): Promise<void>;
  close(): void;
}

/** File events trigger a check early; where there are none (network file systems, some containers), polling finds every change. */
const pollMs = 5_000;
/** A file is often written in several steps. */
const settleMs = 100;

/** Watches `paths`, through symbolic links. A missing file is watched too, and its creation is a change. */
export const watchFiles = async (
  paths: readonly string[],
  { clock }: { clock: Clock },
): Promise<FileWatch> => {
  let seen = await fingerprint(paths);
  let wake = Promise.withResolvers<void>();
  // For `current/tls.crt`: its directory, and the one in which the link `current` changes.
  const directories = new Set(paths.flatMap((path) => [dirname(path), dirname(dirname(path))]));
  const watchers = [...directories].flatMap((directory) =>
    watchDirectory(directory, () => wake.resolve()),
  );
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
        const found = await fingerprint(paths);
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

const fingerprint = async (paths: readonly string[]): Promise<string> => {
  const found = await Promise.all(
    paths.map((path) => stat(path, { bigint: true }).catch(() => null)),
  );
  return found
    .map((stats) => stats && [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.mode].join())
    .join(";");
};

const watchDirectory = (directory: string, onEvent: () => void): FSWatcher[] => {
  try {
    const watcher = watch(directory, { persistent: false }, onEvent);
    watcher.on("error", () => undefined); // the directory was removed, or there are too many watches: polling continues
    return [watcher];
  } catch {
    return [];
  }
};
