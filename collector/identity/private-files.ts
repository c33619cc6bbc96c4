/*
 * Files that only their owner may read, written so that a crash at any moment leaves the old file or the whole new one.
 *
 * Invariants: a name never points at half a file (temporary file, fsync, rename, fsync of the directory); a temporary file is new
 * (O_EXCL), is no link (O_NOFOLLOW) and is 0600 before its first byte.
 */
import { constants } from "node:fs";
import { chmod, lstat, mkdir, open, readlink, rename, symlink, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Entropy } from "../../functions/kit/entropy.ts";

/** A file or directory is not what it must be. The message names no path. */
export class UnsafeFileError extends Error {
  override readonly name = "UnsafeFileError";
}

const temporaryName = (path: string, entropy: Entropy): string =>
  join(dirname(path), `.${basename(path)}.${entropy.bytes(8).toHex()}`);

/** Makes the entries of `directory` durable. */
export const syncDirectory = async (directory: string): Promise<void> => {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

/** Makes `directory` (and what leads to it) unless it is there; 0700 either way. A symbolic link in its place is refused. */
export const makePrivateDirectory = async (directory: string): Promise<void> => {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const found = await lstat(directory);
  if (!found.isDirectory()) throw new UnsafeFileError("a private directory must be a directory, not a link");
  if ((found.mode & 0o077) !== 0) await chmod(directory, 0o700);
};

/** Puts `text` at `path` durably, in one step, replacing what was there. The mode is 0600 unless told. */
export const writeDurably = async (path: string, text: string, entropy: Entropy, mode = 0o600): Promise<void> => {
  const temporary = temporaryName(path, entropy);
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
  const handle = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    try {
      await handle.writeFile(text);
      if (mode !== 0o600) await handle.chmod(mode);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  await syncDirectory(dirname(path));
};

/** Points the symbolic link `path` at `target` durably, in one step. */
export const switchLink = async (path: string, target: string, entropy: Entropy): Promise<void> => {
  const temporary = temporaryName(path, entropy);
  await symlink(target, temporary);
  try {
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  await syncDirectory(dirname(path));
};

/** What the symbolic link `path` points at; undefined if there is none. */
export const linkTarget = async (path: string): Promise<string | undefined> => {
  try {
    return await readlink(path);
  } catch {
    return undefined;
  }
};

/** Reads a private key's text; refuses, by the opened file's own status, what is no regular file or open to group or others. */
export const readPrivateText = async (path: string): Promise<string> => {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = await handle.stat();
    if (!status.isFile()) throw new UnsafeFileError("is not a regular file");
    if (process.platform !== "win32" && (status.mode & 0o077) !== 0)
      throw new UnsafeFileError("is open to its group or to others; set its mode to 0600");
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
};
