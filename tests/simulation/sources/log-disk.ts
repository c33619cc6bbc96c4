import { createMounts, type Mounts } from "#collector/files/mounts.ts";
import type { LogFile, SourceFiles } from "#collector/sources/file/source-files.ts";
import type { TestClock } from "#tests/fakes/clock.ts";

/** A file of the model, which names, writers and readers share. */
export interface Inode {
  readonly ino: number;
  data: Buffer;
  mtimeMs: number;
  /** What a compressed file holds; null while it is being written. */
  packed?: Buffer | null;
}

/** Fills `buffer` from an offset on and returns the filled part. */
const copyOf = (data: Buffer, buffer: Buffer, offset: number): Buffer =>
  buffer.subarray(0, data.subarray(offset).copy(buffer));

/** The directory in which the logs of a history lie. */
export const logFolder = "/logs";

/**
 * A model of one directory of logs: names, inodes that are used again, a device number that a remount changes, a mount that hangs, and calls
 * that take some turns. Its
 * `files` go through the real guard of mounts.
 */
export const createLogDisk = (clock: TestClock, random: () => number) => {
  const names = new Map<string, Inode>();
  /** How often each inode is open. */
  const open = new Map<Inode, number>();
  const freed: number[] = [];
  let device = 1;
  let lastIno = 100;
  let folderMtimeMs = clock.now();
  let hang: PromiseWithResolvers<void> | undefined;

  const changed = () => {
    folderMtimeMs = clock.now();
  };
  const isReachable = (inode: Inode) => open.has(inode) || [...names.values()].includes(inode);
  const free = (inode: Inode) => {
    if (!isReachable(inode)) freed.push(inode.ino);
  };

  const disk = {
    /** The names in order. */
    names: () => [...names.keys()].toSorted(),
    has: (name: string) => names.has(name),
    inode: (name: string) => names.get(name),
    create: (name: string, data: Buffer = Buffer.alloc(0)): Inode => {
      const inode = { ino: freed.shift() ?? ++lastIno, data, mtimeMs: clock.now() };
      names.set(name, inode);
      changed();
      return inode;
    },
    write: (inode: Inode, text: string) => {
      inode.data = Buffer.concat([inode.data, Buffer.from(text)]);
      inode.mtimeMs = clock.now();
    },
    truncate: (inode: Inode) => {
      inode.data = Buffer.alloc(0);
      inode.mtimeMs = clock.now();
    },
    rename: (from: string, to: string) => {
      const inode = names.get(from);
      const before = names.get(to);
      if (inode === undefined) return;
      names.delete(from);
      names.set(to, inode);
      if (before) free(before);
      changed();
    },
    remove: (name: string) => {
      const inode = names.get(name);
      if (inode === undefined) return;
      names.delete(name);
      free(inode);
      changed();
    },
    /** Writers and readers keep an inode. */
    keep: (inode: Inode) => {
      open.set(inode, (open.get(inode) ?? 0) + 1);
    },
    release: (inode: Inode) => {
      const left = (open.get(inode) ?? 1) - 1;
      if (left > 0) open.set(inode, left);
      else {
        open.delete(inode);
        free(inode);
      }
    },
    remount: () => {
      device += 1;
    },
    hang: () => {
      hang ??= Promise.withResolvers();
    },
    answer: () => {
      hang?.resolve();
      hang = undefined;
    },
  };

  const statOf = (inode: Inode) => ({
    dev: device,
    ino: inode.ino,
    size: inode.packed === undefined ? inode.data.length : (inode.packed?.length ?? 1),
    mtimeMs: inode.mtimeMs,
    links: [...names.values()].includes(inode) ? 1 : 0,
    isFile: true,
    isDirectory: false,
  });
  const folderStat = () => ({
    dev: device,
    ino: 2,
    size: 0,
    mtimeMs: folderMtimeMs,
    links: 2,
    isFile: false,
    isDirectory: true,
  });
  const list = `1 0 0:1 / / rw - sim root\n2 1 0:2 / ${logFolder} rw - sim logs\n`;

  /** The disk as one collector sees it, until `end`: then none of its calls returns. */
  const mount = (): { files: SourceFiles; mounts: Mounts; end(): void } => {
    const mounts = createMounts(clock, () => list);
    const kept: Inode[] = [];
    let hasEnded = false;
    const call = <Result>(act: () => Result): Promise<Result> =>
      mounts.of(logFolder).call(async () => {
        while (hang) await hang.promise;
        // So that calls of different loops come between each other.
        for (let turns = Math.floor(random() * 4); turns > 0; turns--)
          await new Promise(setImmediate);
        if (hasEnded) await new Promise(() => undefined);
        return act();
      });
    const nameOf = (path: string) => path.slice(logFolder.length + 1);
    const openInode = (path: string, inode: Inode): LogFile => {
      disk.keep(inode);
      kept.push(inode);
      return {
        path,
        realPath: path,
        stat: statOf(inode),
        mount: { mountpoint: logFolder, type: "sim" },
        read: (buffer, offset) => call(() => copyOf(inode.data, buffer, offset)),
        restat: () => call(() => statOf(inode)),
        close: async () => {
          const index = kept.indexOf(inode);
          if (index === -1) return;
          kept.splice(index, 1);
          disk.release(inode);
        },
      };
    };
    return {
      mounts,
      end: () => {
        hasEnded = true;
        for (const inode of kept.splice(0)) disk.release(inode);
      },
      files: {
        hasRoom: () => true,
        isShared: () => false,
        resolve: async (path) => ({ path, linkOwners: [] }),
        list: () => call(() => disk.names().map((name) => ({ name, kind: "file" as const }))),
        stat: (path) =>
          call(() => {
            if (path === logFolder) return folderStat();
            const inode = names.get(nameOf(path));
            return inode ? statOf(inode) : null;
          }),
        open: (path) =>
          call(() => {
            const inode = names.get(nameOf(path));
            return inode ? openInode(path, inode) : null;
          }),
        packed: (file) => {
          const inode = names.get(nameOf(file.realPath));
          const content = inode?.packed ?? undefined;
          return {
            outline: () =>
              call(() => content && { size: content.length, start: content.subarray(0, 1024) }),
            content: () =>
              call(() => {
                if (!content) return "damaged";
                if (random() < 0.2) return "measuring";
                const stat = { ...file.stat, size: content.length };
                return {
                  ...file,
                  stat,
                  restat: async () => stat,
                  read: async (buffer: Buffer, offset: number) => copyOf(content, buffer, offset),
                };
              }),
          };
        },
      },
    };
  };

  return { ...disk, mount };
};
