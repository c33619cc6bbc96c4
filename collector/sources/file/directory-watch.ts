/*
 * Lets idle files and their directories be polled rarely. A directory in which nothing has been written for a while is watched by inotify, and
 * polled at once when an event comes; then it is polled again, since events of a busy file would cost more than its polls. Only local file
 * systems are watched: others report no changes of other machines, and a watch of one that does not answer would stop the process.
 */
import { type FSWatcher, watch } from "node:fs";
import { errorCode } from "#kit/describe-error.ts";

/** Watches idle directories. */
export type DirectoryWatch = ReturnType<typeof createDirectoryWatch>;

/** How long a directory must have been quiet. */
const quietMs = 10_000;

const local = new Set(["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs"]);

/** Reports whether directories on a file system of this type are watched. */
export const isWatched = (type: string): boolean => local.has(type);

/** Creates the watch. `changed` is called for a directory that must be polled again, and told whether its names have changed. */
export const createDirectoryWatch = (
  clock: { monotonic(): number },
  changed: (directory: string, hasOtherNames: boolean) => void,
  open: typeof watch = watch,
) => {
  const watchers = new Map<string, { readonly watcher: FSWatcher; readonly since: number }>();
  const wroteAt = new Map<string, number>();
  const refused = new Set<string>();

  const end = (directory: string) => {
    watchers.get(directory)?.watcher.close();
    watchers.delete(directory);
  };

  const wrote = (directory: string) => {
    wroteAt.set(directory, clock.monotonic());
    end(directory);
  };

  const begin = (directory: string) => {
    try {
      const watcher = open(directory, { persistent: false }, (event) => {
        wrote(directory);
        changed(directory, event === "rename");
      });
      watcher.on("error", () => end(directory));
      watchers.set(directory, { watcher, since: clock.monotonic() });
      refused.delete(directory);
    } catch (error) {
      if (["ENOSPC", "EMFILE"].includes(errorCode(error) ?? "")) refused.add(directory);
      // Tried again after the same time.
      wroteAt.set(directory, clock.monotonic());
    }
  };

  return {
    /** Something was read in the directory. */
    wrote,
    /** Reports whether a change in the directory will be reported. Begins to watch it once it has been quiet. */
    reports: (directory: string, type: string) => {
      if (watchers.has(directory)) return true;
      if (!isWatched(type)) return false;
      const since = wroteAt.get(directory);
      if (since === undefined) wroteAt.set(directory, clock.monotonic());
      else if (clock.monotonic() - since >= quietMs) begin(directory);
      // Not yet: what was written before the watch began is polled once more.
      return false;
    },
    /** Reports whether the watch of a directory was refused: the limit of the machine is reached. */
    isRefused: (directory: string) => refused.has(directory),
    /** Since when every change in the directory has been reported, in monotonic time; undefined unless it is watched. */
    since: (directory: string) => watchers.get(directory)?.since,
    close: () => {
      for (const directory of watchers.keys()) end(directory);
    },
  };
};
