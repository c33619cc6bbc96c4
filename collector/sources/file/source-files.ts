/*
 * The file system as `file` sources use it. Others control patterns and links: those who publish configs, and those who may write to a log
 * directory. Invariants:
 * - The decision to read is about the file behind the opened descriptor, not about a name that may lead elsewhere a moment later.
 * - No file under the collector's own directories is read, by whatever name.
 * - A symbolic link is followed only if root owns it, or the owner of its target: nobody can have the collector read for them what they cannot
 *   read themselves.
 * - Each call is of one mount, and rejects if that does not answer (collector/files/mounts.ts).
 */
import {
  type Dir,
  type Dirent,
  constants as fileConstants,
  readFileSync,
  type Stats,
} from "node:fs";
import { type FileHandle, lstat, open, opendir, readlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Mount, Mounts } from "#collector/files/mounts.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { FileRules } from "../source.ts";
import { type CompressedFile, createCompressedFile } from "./compressed-file.ts";
import { fileKey, type ReadableFile } from "./position.ts";

/** What a source needs to know of a file. */
export interface FileStat {
  readonly dev: number;
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  /** How many names it has; 0 for a deleted one that is open. */
  readonly links: number;
  readonly isFile: boolean;
  readonly isDirectory: boolean;
}

/** An entry of a directory. */
export interface DirectoryEntry {
  readonly name: string;
  readonly kind: "file" | "directory" | "link" | "other";
}

/** A path without symbolic links, and the owners of those on the way. */
export interface ResolvedPath {
  readonly path: string;
  readonly linkOwners: readonly number[];
}

/** An open regular file. */
export interface LogFile extends ReadableFile {
  readonly path: string;
  /** Without symbolic links. */
  readonly realPath: string;
  /** When it was opened; of a compressed file, of itself. */
  readonly stat: FileStat;
  readonly mount: Pick<Mount, "mountpoint" | "type">;
  /** Whether a compressed file has more content than is read. */
  readonly isCut?: boolean;
  restat(): Promise<FileStat>;
  close(): Promise<void>;
}

/** The file system. Each call rejects with `HungMountError` if a mount does not answer. */
export interface SourceFiles {
  /** Resolves every symbolic link in a path, one by one; null if there is no such file. */
  resolve(path: string): Promise<ResolvedPath | null>;
  /** Lists a directory; empty if it is missing or no directory. Rejects if it may not be read. */
  list(realPath: string): Promise<DirectoryEntry[]>;
  /** Stats a file by its path without links; null if it is missing. */
  stat(realPath: string): Promise<FileStat | null>;
  /**
   * Opens a regular file for reading. Returns null for anything else, for a missing file, and for one that was moved meanwhile. Throws
   * `ForbiddenFileError` if the rules forbid it.
   */
  open(path: string, rules: FileRules): Promise<LogFile | null>;
  packed(file: LogFile): CompressedFile;
  /** Reports whether the process has a descriptor left for another file, beside those that everything else needs. */
  hasRoom(): boolean;
  /** Reports whether a file is open more than once: sources share it. */
  isShared(file: LogFile): boolean;
}

/** A file may not be read. The message says why. */
export class ForbiddenFileError extends Error {
  override readonly name = "ForbiddenFileError";
}

/** Reports whether a link of `linkOwner` to a file of `fileOwner` may be followed. */
export const isTrustedLink = (linkOwner: number, fileOwner: number): boolean =>
  linkOwner === 0 || linkOwner === fileOwner;

const isMissing = (error: unknown): boolean =>
  ["ENOENT", "ENOTDIR", "ELOOP"].includes(errorCode(error) ?? "");

/** Reports whether an error says that this user may not look at a path. */
export const isDenied = (error: unknown): boolean =>
  ["EACCES", "EPERM"].includes(errorCode(error) ?? "");

const orNull = (error: unknown): null => {
  if (isMissing(error)) return null;
  throw error;
};

const statOf = (stat: Stats): FileStat => ({
  dev: stat.dev,
  ino: stat.ino,
  size: stat.size,
  mtimeMs: stat.mtimeMs,
  links: stat.nlink,
  isFile: stat.isFile(),
  isDirectory: stat.isDirectory(),
});

/** How many of its descriptors the process keeps for connections, its queue and its listeners: a quarter, and at least so many. */
const otherDescriptors = 64;

/** Returns how many files may be open at once; without Linux's /proc, 1,000. */
const readOpenFilesMax = (): number => {
  try {
    const limits = readFileSync("/proc/self/limits", "utf8");
    const limit = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Number.NaN);
    if (Number.isNaN(limit)) return Number.POSITIVE_INFINITY;
    return Math.max(1, limit - Math.max(otherDescriptors, Math.floor(limit / 4)));
  } catch {
    return 1_000;
  }
};

/** Creates the file system of this machine, of whose descriptors `openFilesMax` are for files. */
export const createSourceFiles = (
  mounts: Mounts,
  openFilesMax = readOpenFilesMax(),
): SourceFiles => {
  let openFiles = 0;
  /** How often files are open, by their keys. */
  const opened = new Map<string, number>();
  const count = (key: string, change: 1 | -1) => {
    openFiles += change;
    const times = (opened.get(key) ?? 0) + change;
    if (times === 0) opened.delete(key);
    else opened.set(key, times);
  };
  const at = <Result>(path: string, act: () => Promise<Result>): Promise<Result> =>
    mounts.of(path).call(act);
  const lstatAt = (path: string) => at(path, () => lstat(path));
  const resolveLinks = createLinkResolver({
    lstat: lstatAt,
    readlink: (path) => at(path, () => readlink(path)),
  });
  const resolvePath = (path: string) => resolveLinks(path).catch(orNull);
  const checkRules = createRuleCheck({ lstat: lstatAt, resolve: resolvePath, at });

  const openChecked = async (path: string, rules: FileRules): Promise<LogFile | null> => {
    const { path: realPath, linkOwners } = await resolveLinks(path);
    if (!(await lstatAt(realPath)).isFile()) return null;
    const mount = mounts.of(realPath);
    // Non-blocking, in case a pipe replaced the file since.
    const flags = fileConstants.O_RDONLY | fileConstants.O_NONBLOCK | fileConstants.O_NOFOLLOW;
    const close = (handle: FileHandle) => mount.release(() => handle.close());
    const handle = await mount.call(
      () => open(realPath, flags),
      (late) => void close(late),
    );
    try {
      const stat = await mount.call(() => handle.stat());
      // If the path differs, a link has replaced a directory of it, or the file was renamed.
      if (stat.isFile() && (await openedPath(handle.fd, realPath)) === realPath) {
        await checkRules(realPath, stat, linkOwners, rules);
        const key = fileKey(stat);
        count(key, 1);
        return openedFile(handle, { path, realPath, stat: statOf(stat), mount }, () =>
          count(key, -1),
        );
      }
      await close(handle);
      return null;
    } catch (error) {
      await close(handle);
      throw error;
    }
  };

  return {
    resolve: resolvePath,
    list: (path) =>
      listDirectory(mounts.of(path), path)
        .catch(orNull)
        .then((entries) => entries ?? []),
    stat: async (path) => {
      const found = await lstatAt(path).catch(orNull);
      return found && statOf(found);
    },
    open: (path, rules) => openChecked(path, rules).catch(orNull),
    packed: (file) => createCompressedFile(file),
    hasRoom: () => openFiles < openFilesMax,
    isShared: ({ stat }) => (opened.get(fileKey(stat)) ?? 0) > 1,
  };
};

const kindOf = (entry: Dirent): DirectoryEntry["kind"] => {
  if (entry.isFile()) return "file";
  if (entry.isDirectory()) return "directory";
  return entry.isSymbolicLink() ? "link" : "other";
};

const entriesAtOnce = 1_000;

/** Returns the entries of a directory. Reads some at a time: all at once would take three times the memory. */
const listDirectory = async (mount: Mount, path: string): Promise<DirectoryEntry[]> => {
  const close = (directory: Dir) => mount.release(() => directory.close());
  const directory = await mount.call(
    () => opendir(path, { bufferSize: entriesAtOnce }),
    (late) => void close(late),
  );
  const entries: DirectoryEntry[] = [];
  /** Reads the next entries. Returns whether there may be more. */
  const readSome = async (): Promise<boolean> => {
    for (let count = 0; count < entriesAtOnce; count++) {
      const entry = await directory.read();
      if (entry === null) return false;
      entries.push({ name: entry.name, kind: kindOf(entry) });
    }
    return true;
  };
  try {
    while (await mount.call(readSome));
    return entries;
  } finally {
    await close(directory);
  }
};

/** Returns an open file. */
const openedFile = (
  handle: FileHandle,
  facts: Pick<LogFile, "path" | "realPath" | "stat"> & { mount: Mount },
  onClosed: () => void,
): LogFile => {
  const { mount } = facts;
  return {
    ...facts,
    read: (buffer, offset) => mount.call(() => readFully(handle, buffer, offset)),
    restat: async () => statOf(await mount.call(() => handle.stat())),
    close: () => mount.release(() => handle.close()).finally(onClosed),
  };
};

const readFully = async (handle: FileHandle, buffer: Buffer, offset: number): Promise<Buffer> => {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await handle.read(
      buffer,
      filled,
      buffer.length - filled,
      offset + filled,
    );
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
};

/** Returns the path of an open file; without `/proc`, the path by which it was opened. */
const openedPath = (descriptor: number, path: string): Promise<string> =>
  readlink(`/proc/self/fd/${descriptor}`).catch(() => path);

const linksMax = 40;

/** The calls with which links are resolved. */
interface LinkCalls {
  lstat(path: string): Promise<Stats>;
  readlink(path: string): Promise<string>;
}

/** Creates the function that resolves every symbolic link in a path, one by one. It throws for a missing file. */
const createLinkResolver =
  ({ lstat: lstatAt, readlink: readlinkAt }: LinkCalls) =>
  async (path: string): Promise<ResolvedPath> => {
    const linkOwners: number[] = [];
    const remaining = resolve(path).split("/").reverse();
    let resolved = "/";
    for (let name = remaining.pop(); name !== undefined; name = remaining.pop()) {
      if (name === "" || name === ".") continue;
      const next = name === ".." ? dirname(resolved) : join(resolved, name);
      const found = await lstatAt(next);
      if (!found.isSymbolicLink()) {
        resolved = next;
        continue;
      }
      linkOwners.push(found.uid);
      if (linkOwners.length > linksMax)
        throw new ForbiddenFileError("it is behind too many symbolic links");
      const target = await readlinkAt(next);
      if (target.startsWith("/")) resolved = "/";
      remaining.push(...target.split("/").reverse());
    }
    return { path: resolved, linkOwners };
  };

/** The calls with which rules are checked. */
interface RuleCalls {
  lstat(path: string): Promise<Stats>;
  resolve(path: string): Promise<ResolvedPath | null>;
  at<Result>(path: string, act: () => Promise<Result>): Promise<Result>;
}

/** Limits the search for hard links; the collector's own directories have some dozen entries. */
const entriesMax = 10_000;

/** Creates the function that throws `ForbiddenFileError` if the rules forbid to read a file. */
const createRuleCheck = ({ lstat: lstatAt, resolve: resolvePath, at }: RuleCalls) => {
  /** Returns the real paths of those that exist. */
  const realPaths = async (paths: readonly string[]): Promise<string[]> => {
    const found = await Promise.all(paths.map(resolvePath));
    return found.flatMap((entry) => entry?.path ?? []);
  };

  /** Reports whether the file is one of `entries` or in a directory among them, by its inode: a hard link has another name. */
  const hasEntry = async (entries: readonly string[], { dev, ino }: Stats): Promise<boolean> => {
    let searched = 0;
    const isIt = async (path: string): Promise<boolean> => {
      const found = await lstatAt(path).catch(orNull);
      return found !== null && found.dev === dev && found.ino === ino;
    };
    for (const entry of entries) {
      if (await isIt(entry)) return true;
      if (!(await lstatAt(entry)).isDirectory()) continue;
      for await (const child of await at(entry, () => opendir(entry, { recursive: true }))) {
        // A directory of this size is not only the collector's: then forbid every file with several names.
        if (++searched > entriesMax) return true;
        if (child.isFile() && (await isIt(join(child.parentPath, child.name)))) return true;
      }
    }
    return false;
  };

  return async (
    path: string,
    stat: Stats,
    linkOwners: readonly number[],
    { neverRead, roots }: FileRules,
  ): Promise<void> => {
    if (!linkOwners.every((owner) => isTrustedLink(owner, stat.uid)))
      throw new ForbiddenFileError(
        "a symbolic link to it belongs neither to root nor to the file's owner",
      );
    const own = await realPaths(neverRead);
    if (
      own.some((entry) => isWithin(path, entry)) ||
      (stat.nlink > 1 && (await hasEntry(own, stat)))
    )
      throw new ForbiddenFileError(
        "it belongs to the collector: its identity, its config or its queue",
      );
    if (roots !== undefined && !(await realPaths(roots)).some((root) => isWithin(path, root)))
      throw new ForbiddenFileError("it is outside management.file_roots");
  };
};

const isWithin = (path: string, directory: string): boolean =>
  path === directory || path.startsWith(directory.endsWith("/") ? directory : `${directory}/`);
