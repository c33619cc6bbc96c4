/*
 * Finds and opens the files of a `file` source, also under the names that rotation gave them, copied or compressed. Recognises a file by its
 * inode, and otherwise by its first bytes.
 *
 * Others control patterns and links: those who publish configs, and those who may write to a log directory. Invariants:
 * - The decision to read is about the file behind the opened descriptor, not about a name that may lead elsewhere a moment later.
 * - No file under the collector's own directories is read, by whatever name.
 * - A symbolic link is followed only if root owns it, or the owner of its target: nobody can have the collector read for them what they cannot
 *   read themselves.
 */
import { randomUUID } from "node:crypto";
import type { EventEmitter } from "node:events";
import { constants as fileConstants, type Stats } from "node:fs";
import {
  type FileHandle,
  glob,
  lstat,
  open,
  opendir,
  readdir,
  readlink,
  realpath,
  rm,
  stat,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, extname, join, matchesGlob, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import { isDiskUnwritable } from "#collector/queue/errors.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { FileRules } from "../source.ts";
import { readAt } from "./lines.ts";
import { continues, fileKey, isHeadOf, type Position } from "./position.ts";

/** Selects the files of a source. */
export interface FilePatterns {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/** An open regular file. */
export interface OpenFile {
  readonly path: string;
  /** Without symbolic links. */
  readonly realPath: string;
  readonly file: FileHandle;
  readonly stat: Stats;
}

/** When a file was created and modified. */
export interface Aged {
  readonly mtimeMs: number;
  readonly birthtimeMs: number;
  readonly isPacked: boolean;
}

/** Reports whether the patterns select a path. */
export const matches = ({ include, exclude }: FilePatterns, path: string): boolean =>
  include.some((pattern) => matchesGlob(path, pattern)) &&
  !exclude.some((pattern) => matchesGlob(path, pattern));

/** Finds the paths of one include pattern, sorted. */
export const findPaths = async (pattern: string, { exclude }: FilePatterns): Promise<string[]> => {
  const paths: string[] = [];
  for await (const path of glob(pattern))
    if (!exclude.some((other) => matchesGlob(path, other))) paths.push(path);
  return paths.sort();
};

/** Stats a regular file; null for anything else and for a missing file. Throws other errors. */
export const statRegularFile = async (path: string): Promise<Stats | null> => {
  try {
    const found = await stat(path);
    return found.isFile() ? found : null;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
};

/** Opens the file in `directory` for which `isIt` returns true: a followed file that was renamed. */
export const findRenamed = async (
  directory: string,
  isIt: (stat: Stats) => boolean,
  rules: FileRules,
): Promise<OpenFile | null> => {
  const names = await readdir(directory).catch(() => []);
  for (const name of names) {
    const candidate = await stat(join(directory, name)).catch(() => null);
    if (candidate === null || !isIt(candidate)) continue;
    const opened = await openContent(join(directory, name), rules);
    if (opened !== null && isIt(opened.stat)) return opened;
    await opened?.file.close();
  }
  return null;
};

const isMissing = (error: unknown): boolean =>
  ["ENOENT", "ENOTDIR"].includes(errorCode(error) ?? "");

/** The most bytes that are read of a compressed file; the others are counted as lost. */
const unpackedBytesMax = 512 * 1024 * 1024;

/** Reports whether rotation may have given `name` to a file that was called `base`: `app.log.1`, `app.log-20260102.gz`, `app-20260102.log`. */
const isRotatedName = (name: string, base: string): boolean => {
  if (name === base) return false;
  if (name.startsWith(base)) return /^[.\-_]/.test(name.slice(base.length));
  const extension = extname(base);
  const stem = base.slice(0, base.length - extension.length);
  return (
    extension !== "" &&
    name.startsWith(stem) &&
    /^[.\-_]/.test(name.slice(stem.length)) &&
    name.includes(extension, stem.length)
  );
};

/** Reports whether a file is newer than `other`, by its modification, and by its creation unless one of them is compressed. */
export const isNewer = (file: Aged, other: Aged): boolean =>
  file.mtimeMs >= other.mtimeMs &&
  (file.isPacked || other.isPacked || file.birthtimeMs >= other.birthtimeMs);

/**
 * Opens the files with names that rotation gives to that of `position`, if `isWanted` returns true for them, and compressed ones only if they
 * start like `startsLike`. The caller closes each.
 */
export const openRotated = async function* (
  position: Position,
  isWanted: (key: string, age: Aged) => boolean,
  rules: FileRules,
  startsLike?: Position,
): AsyncGenerator<OpenFile & { age: Aged }> {
  const path = await rotatedPath(position);
  for (const name of (await readdir(dirname(path)).catch(() => [])).sort()) {
    if (!isRotatedName(name, basename(path))) continue;
    const candidate = join(dirname(path), name);
    const found = await stat(candidate).catch(() => null);
    if (found === null || !found.isFile()) continue;
    const age = {
      mtimeMs: found.mtimeMs,
      birthtimeMs: found.birthtimeMs,
      isPacked: isPacked(name),
    };
    if (!isWanted(fileKey(found), age)) continue;
    const opened = await openContent(candidate, rules, startsLike);
    if (opened !== null) yield { ...opened, age };
  }
};

/**
 * Opens a file, or the content of a compressed one. Returns null if it is missing, forbidden, not gzip as its name says, or compressed and does
 * not start like `startsLike`. Throws if the disk has no room for its content.
 */
const openContent = async (
  path: string,
  rules: FileRules,
  startsLike?: Position,
): Promise<OpenFile | null> => {
  const opened = await openAllowedFile(path, rules).catch((error: unknown) => {
    if (error instanceof ForbiddenFileError) return null;
    throw error;
  });
  if (opened === null || !isPacked(path)) return opened;
  try {
    if (startsLike === undefined || (await hasPackedHead(opened.file, startsLike))) {
      const file = await unpack(opened.file);
      // Keep the compressed file open as long as its content: otherwise a new file could get its inode, and be mistaken for it.
      (file as FileHandle & EventEmitter).once("close", () => void opened.file.close());
      return {
        ...opened,
        file,
        stat: Object.assign(opened.stat, { size: (await file.stat()).size }),
      };
    }
  } catch (error) {
    if (isDiskUnwritable(error)) {
      await opened.file.close();
      throw error;
    }
    // It is not gzip.
  }
  await opened.file.close();
  return null;
};

const isPacked = (name: string): boolean => name.endsWith(".gz");

/** Reports whether the content of a compressed file starts like a position's, without decompressing it all. */
const hasPackedHead = async (packed: FileHandle, position: Position): Promise<boolean> => {
  const start = await readAt(packed, 0, Buffer.allocUnsafe(8192));
  return isHeadOf(gunzipSync(start, { finishFlush: constants.Z_SYNC_FLUSH }), position);
};

/** Decompresses a file into an unlinked temporary file. Throws if it is not gzip, or too large. */
const unpack = async (packed: FileHandle): Promise<FileHandle> => {
  const path = join(tmpdir(), `svc-collector-${randomUUID()}`);
  const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = fileConstants;
  const file = await open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    await rm(path);
    let bytes = 0;
    const source = packed.createReadStream({ autoClose: false, start: 0 });
    await pipeline(source, createGunzip(), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        if (bytes > unpackedBytesMax) throw new RangeError("a compressed file is too large");
        // Unlike `write`, fails if the disk has room for only a part.
        await file.appendFile(chunk);
      }
    });
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
};

/** Returns the open file other than those in `known` that continues `position`; null if there is none. */
export const findContinuation = async (
  position: Position,
  known: (key: string) => boolean,
  rules: FileRules,
): Promise<(OpenFile & { age: Aged }) | null> => {
  if (position.head.bytes === 0) return null;
  for await (const opened of openRotated(position, (key) => !known(key), rules, position)) {
    if (await continues(opened, position)) return opened;
    await opened.file.close();
  }
  return null;
};

/** Returns the path next to which rotation moves a file: the target of a symbolic link. */
const rotatedPath = async ({ path, directory = dirname(path) }: Position): Promise<string> => {
  const real = await realpath(path).catch(() => path);
  return dirname(real) === directory ? real : join(directory, basename(path));
};

/** A file may not be read. The message says why. */
export class ForbiddenFileError extends Error {
  override readonly name = "ForbiddenFileError";
}

/** Reports whether a link of `linkOwner` to a file of `fileOwner` may be followed. */
export const isTrustedLink = (linkOwner: number, fileOwner: number): boolean =>
  linkOwner === 0 || linkOwner === fileOwner;

/**
 * Opens a regular file for reading. Returns null for anything else, for a missing file, and for one that was moved meanwhile. Throws
 * `ForbiddenFileError` if the rules forbid it.
 */
export const openAllowedFile = async (path: string, rules: FileRules): Promise<OpenFile | null> => {
  try {
    const { path: realPath, linkOwners } = await resolveLinks(path);
    if (!(await lstat(realPath)).isFile()) return null;
    // Non-blocking, in case a pipe replaced the file since.
    const file = await open(
      realPath,
      fileConstants.O_RDONLY | fileConstants.O_NONBLOCK | fileConstants.O_NOFOLLOW,
    );
    try {
      const stat = await file.stat();
      // If the path differs, a link has replaced a directory of it, or the file was renamed.
      if (stat.isFile() && (await openedPath(file.fd, realPath)) === realPath) {
        await checkRules(realPath, stat, linkOwners, rules);
        return { path, realPath, file, stat };
      }
      await file.close();
      return null;
    } catch (error) {
      await file.close();
      throw error;
    }
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "ELOOP"].includes(errorCode(error) ?? "")) return null;
    throw error;
  }
};

const linksMax = 40;

/** Resolves every symbolic link in `path`, one by one. Returns the real path, and the owners of the links. */
const resolveLinks = async (path: string): Promise<{ path: string; linkOwners: number[] }> => {
  const linkOwners: number[] = [];
  const remaining = resolve(path).split("/").reverse();
  let resolved = "/";
  for (let name = remaining.pop(); name !== undefined; name = remaining.pop()) {
    if (name === "" || name === ".") continue;
    const next = name === ".." ? dirname(resolved) : join(resolved, name);
    const found = await lstat(next);
    if (!found.isSymbolicLink()) {
      resolved = next;
      continue;
    }
    linkOwners.push(found.uid);
    if (linkOwners.length > linksMax)
      throw new ForbiddenFileError("it is behind too many symbolic links");
    const target = await readlink(next);
    if (target.startsWith("/")) resolved = "/";
    remaining.push(...target.split("/").reverse());
  }
  return { path: resolved, linkOwners };
};

/** Returns the path of an open file; without `/proc`, the real path of `path`. */
const openedPath = (descriptor: number, path: string): Promise<string> =>
  readlink(`/proc/self/fd/${descriptor}`).catch(() => realpath(path));

const checkRules = async (
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
  if (own.some((entry) => isWithin(path, entry)) || (stat.nlink > 1 && (await hasEntry(own, stat))))
    throw new ForbiddenFileError(
      "it belongs to the collector: its identity, its config or its queue",
    );
  if (roots !== undefined && !(await realPaths(roots)).some((root) => isWithin(path, root)))
    throw new ForbiddenFileError("it is outside management.file_roots");
};

/** Returns the real paths of those that exist. */
const realPaths = async (paths: readonly string[]): Promise<string[]> => {
  const found = await Promise.all(paths.map((path) => realpath(path).catch(() => null)));
  return found.filter((path) => path !== null);
};

const isWithin = (path: string, directory: string): boolean =>
  path === directory || path.startsWith(directory.endsWith("/") ? directory : `${directory}/`);

/** Limits the search for hard links; the collector's own directories have some dozen entries. */
const entriesMax = 10_000;

/** Reports whether the file is one of `entries` or in a directory among them, by its inode: a hard link has another name. */
const hasEntry = async (entries: readonly string[], { dev, ino }: Stats): Promise<boolean> => {
  let searched = 0;
  const isIt = async (path: string): Promise<boolean> => {
    const found = await lstat(path).catch(() => undefined);
    return found !== undefined && found.dev === dev && found.ino === ino;
  };
  for (const entry of entries) {
    if (await isIt(entry)) return true;
    if (!(await lstat(entry)).isDirectory()) continue;
    for await (const child of await opendir(entry, { recursive: true })) {
      // A directory of this size is not only the collector's: then forbid every file with several names.
      if (++searched > entriesMax) return true;
      if (child.isFile() && (await isIt(join(child.parentPath, child.name)))) return true;
    }
  }
  return false;
};
