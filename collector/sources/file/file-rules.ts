/*
 * Which files a `file` source may read. Patterns and links are under the control of others: of who publishes configs, and of who may
 * write to a log directory. Invariants:
 * - The decision is about the file behind the opened descriptor, not about a name that may lead elsewhere a moment later.
 * - No file under the collector's own directories is read, by whatever name.
 * - A symbolic link is followed only if root owns it, or the owner of the file that it leads to: nobody can have the collector read for
 *   them what they cannot read themselves.
 */
import { constants, type Stats } from "node:fs";
import { lstat, open, opendir, readlink, realpath } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { errorCode } from "../../../kit/describe-error.ts";
import type { FileRules } from "../source.ts";
import type { OpenFile } from "./discovery.ts";

/** A file may not be read. The message says why. */
export class ForbiddenFileError extends Error {
  override readonly name = "ForbiddenFileError";
}

/** Whether a link of `linkOwner` to a file of `fileOwner` may be followed. */
export const isTrustedLink = (linkOwner: number, fileOwner: number): boolean =>
  linkOwner === 0 || linkOwner === fileOwner;

/**
 * Opens a regular file for reading. Returns null for anything else, for a missing file, and for one that is moved meanwhile; throws
 * `ForbiddenFileError` if the rules forbid it.
 */
export const openAllowedFile = async (path: string, rules: FileRules): Promise<OpenFile | null> => {
  try {
    const { path: realPath, linkOwners } = await resolveLinks(path);
    if (!(await lstat(realPath)).isFile()) return null;
    // Non-blocking, in case a pipe replaced the file since.
    const file = await open(
      realPath,
      constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW,
    );
    try {
      const stat = await file.stat();
      // Another path means that a directory on the way was replaced by a link, or the file renamed.
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

/** Resolves every symbolic link in `path`, one by one; returns the owners of all of them. */
const resolveLinks = async (path: string): Promise<{ path: string; linkOwners: number[] }> => {
  const linkOwners: number[] = [];
  const left = resolve(path).split("/").reverse();
  let resolved = "/";
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
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
    left.push(...target.split("/").reverse());
  }
  return { path: resolved, linkOwners };
};

/** Returns the path of an open file; where the kernel does not tell it, what `path` is now. */
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

/** Those of the paths that exist, without links. */
const realPaths = async (paths: readonly string[]): Promise<string[]> => {
  const found = await Promise.all(paths.map((path) => realpath(path).catch(() => null)));
  return found.filter((path) => path !== null);
};

const isWithin = (path: string, directory: string): boolean =>
  path === directory || path.startsWith(directory.endsWith("/") ? directory : `${directory}/`);

/** Bounds the search for hard links; the collector's own directories have some dozen entries. */
const entriesMax = 10_000;

/** Whether the file is one of `entries`, or in a directory among them, by its inode: a hard link is a second name elsewhere. */
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
      // A directory of this size is not the collector's alone: a file with several names is then not read.
      if (++searched > entriesMax) return true;
      if (child.isFile() && (await isIt(join(child.parentPath, child.name)))) return true;
    }
  }
  return false;
};
