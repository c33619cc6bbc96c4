/*
 * Files that only their owner may read. Invariants:
 * - After a crash at any time, a path names the old file or the complete new one: temporary file, fsync, rename, fsync of the
 *   directory.
 * - A temporary file is new (O_EXCL), not a link (O_NOFOLLOW), and has mode 0600 before its first byte.
 */

import { closeSync, constants, fsyncSync, openSync } from "node:fs";
import * as nodeFiles from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { errorCode } from "#kit/describe-error.ts";
import type { Entropy } from "#kit/entropy.ts";

/** The file system operations that these functions use. */
export type FileSystem = Pick<
  typeof nodeFiles,
  | "chmod"
  | "lstat"
  | "mkdir"
  | "open"
  | "readdir"
  | "readFile"
  | "readlink"
  | "rename"
  | "rm"
  | "symlink"
  | "unlink"
>;

/** The real file system. */
export const systemFiles: FileSystem = nodeFiles;

/** Where to write, by default the real file system, and randomness for the names of temporary files. */
export interface FileAccess {
  entropy: Entropy;
  files?: FileSystem;
}

/** A file or directory has the wrong type or mode. The message contains no path. */
export class UnsafeFileError extends Error {
  override readonly name = "UnsafeFileError";
}

const temporaryName = (path: string, entropy: Entropy) =>
  join(dirname(path), `.${basename(path)}.${entropy.bytes(8).toHex()}`);

/** Makes the entries of `directory` durable: a file whose name is lost in a power cut is lost. */
export const fsyncDirectory = async (directory: string, files = systemFiles): Promise<void> => {
  const handle = await files.open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

/** Does what `fsyncDirectory` does, synchronously. */
export const fsyncDirectorySync = (directory: string): void => {
  const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
};

/**
 * Creates an empty file with mode 0600 unless `path` exists. Never opens an existing file: closing any descriptor of a file
 * releases every lock that this process has on it (POSIX record locks).
 */
export const createPrivateFileSync = (path: string): void => {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error;
  }
};

/** Creates `directory` and its parents unless it exists, and makes its mode 0700. Rejects a symbolic link in its place. */
export const makePrivateDirectory = async (
  directory: string,
  files = systemFiles,
): Promise<void> => {
  const found = await createDirectory(directory, files);
  if ((found.mode & 0o077) !== 0) await files.chmod(directory, 0o700);
};

const stickyBit = 0o1000;

/**
 * As `makePrivateDirectory`, for a path that somebody chose. Changes the mode of an existing directory only if it is empty or has one of
 * `ownNames`: `/tmp` or `/var` belong to others. Throws `UnsafeFileError` otherwise.
 */
export const makeOwnDirectory = async (
  directory: string,
  ownNames: readonly string[],
  files = systemFiles,
): Promise<void> => {
  const found = await createDirectory(directory, files);
  if ((found.mode & 0o077) === 0) return;
  const names = await files.readdir(directory);
  const isOwn = names.length === 0 || names.some((name) => ownNames.includes(name));
  if (!isOwn || (found.mode & stickyBit) !== 0)
    throw new UnsafeFileError(
      "a directory for the collector alone is shared with others; choose another, or a new one",
    );
  await files.chmod(directory, 0o700);
};

const createDirectory = async (directory: string, files: FileSystem) => {
  await files.mkdir(directory, { recursive: true, mode: 0o700 });
  const found = await files.lstat(directory);
  if (!found.isDirectory())
    throw new UnsafeFileError("a private directory must be a directory, not a link");
  return found;
};

/** Writes `text` to `path` durably and in one step, replacing a file there. The default mode is 0600. */
export const writeDurably = async (
  path: string,
  text: string,
  disk: FileAccess,
  mode = 0o600,
): Promise<void> => {
  const { entropy, files = systemFiles } = disk;
  const temporary = temporaryName(path, entropy);
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
  const handle = await files.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    try {
      await handle.writeFile(text);
      if (mode !== 0o600) await handle.chmod(mode);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await files.rename(temporary, path);
  } catch (error) {
    await files.unlink(temporary).catch(() => undefined);
    throw error;
  }
  await fsyncDirectory(dirname(path), files);
};

/** Creates or changes the symbolic link `path` to `target`, durably and in one step. */
export const switchLink = async (path: string, target: string, disk: FileAccess): Promise<void> => {
  const { entropy, files = systemFiles } = disk;
  const temporary = temporaryName(path, entropy);
  await files.symlink(target, temporary);
  try {
    await files.rename(temporary, path);
  } catch (error) {
    await files.unlink(temporary).catch(() => undefined);
    throw error;
  }
  await fsyncDirectory(dirname(path), files);
};

/** Returns the target of the symbolic link `path`; undefined if there is none. Throws other errors of the file system. */
export const linkTarget = async (
  path: string,
  files = systemFiles,
): Promise<string | undefined> => {
  try {
    return await files.readlink(path);
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT" || code === "EINVAL") return undefined;
    throw error;
  }
};

/** Reads a private key's text. Throws `UnsafeFileError` unless the opened file is regular and private to its owner. */
export const readPrivateText = (path: string, files = systemFiles): Promise<string> =>
  readGuardedText(
    path,
    { mask: 0o077, fault: "is open to its group or to others; set its mode to 0600" },
    files,
  );

/**
 * Reads the text of a file whose author the collector trusts. Throws `UnsafeFileError` if group or world may write the opened file, or if it
 * has none of these `owners`; any will do without them.
 */
export const readTrustedText = (
  path: string,
  files = systemFiles,
  owners?: readonly number[],
): Promise<string> =>
  readGuardedText(
    path,
    {
      mask: 0o022,
      fault: "may be written by its group or by others; set its mode to 0644",
      owners,
    },
    files,
  );

const readGuardedText = async (
  path: string,
  { mask, fault, owners }: { mask: number; fault: string; owners?: readonly number[] | undefined },
  files: typeof systemFiles,
) => {
  const handle = await files.open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = await handle.stat();
    if (!status.isFile()) throw new UnsafeFileError("is not a regular file");
    if (process.platform !== "win32" && (status.mode & mask) !== 0)
      throw new UnsafeFileError(fault);
    if (owners?.includes(status.uid) === false)
      throw new UnsafeFileError("belongs to another user");
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
};
