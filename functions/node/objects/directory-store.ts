/**
 * Objects as files of one directory. Invariants:
 * - A file has its name only after its bytes are on the disk, and `put` resolves only after the name is there too.
 * - Nothing is written, read or deleted through a symbolic link, nor in a directory that another one has replaced.
 */
import { constants, type Stats } from "node:fs";
import {
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  realpath,
  rm,
  rmdir,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  ObjectChanged,
  ObjectExists,
  ObjectMissing,
  type ObjectQuery,
  type ObjectRange,
  type ObjectStore,
  ObjectStoreUnavailable,
  type StoredObject,
} from "#functions/objects/object-store.ts";
import { concatBytes, equalBytes, lengthOf } from "#kit/bytes.ts";
import { type Clock, dayMs } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { Entropy } from "#kit/entropy.ts";

/** Files that are being written. */
const unfinishedFolder = "unfinished";
/** What a killed core left of them is deleted after so long. */
const unfinishedMs = dayMs;

interface DirectoryNeeds {
  clock: Pick<Clock, "now">;
  entropy: Entropy;
}

/** Opens the store of a directory, and creates that in an existing one. Throws `ObjectStoreUnavailable`. */
export const openDirectoryStore = (path: string, needs: DirectoryNeeds): Promise<ObjectStore> =>
  withReason(async () => {
    await mkdir(path, { mode: 0o700 }).catch((error) => {
      ignoring("EEXIST")(withoutParent(error));
    });
    const root = await realpath(path);
    await syncFolder(dirname(root));
    const opened = await lstat(root);
    checkOwner(opened);
    const files = createFiles(root, opened, needs.entropy);
    await files.deleteUnfinished(needs.clock.now() - unfinishedMs);
    return {
      put: (name, parts) => withReason(() => files.put(name, parts)),
      read: (name, range) => withReason(() => files.read(name, range)),
      list: (query) => withReason(() => listFiles(root, query)),
      delete: (names) => withReason(() => files.delete(names)),
      hazards: () => [],
    };
  });

/** Core creates no more than one folder, so that a file system that is not mounted is noticed. */
const withoutParent = (error: unknown) =>
  errorCode(error) === "ENOENT"
    ? new ObjectStoreUnavailable("the folder that the directory is to be in does not exist")
    : error;

/** Throws unless core's user alone writes the directory. */
const checkOwner = ({ uid, mode }: Stats) => {
  const own = process.getuid?.();
  if (uid !== own)
    throw new ObjectStoreUnavailable(
      `the directory belongs to the user ${uid}, and core runs as ${own}: run core as its owner, or change that`,
    );
  if ((mode & 0o022) !== 0)
    throw new ObjectStoreUnavailable("group or world may write the directory: chmod go-w");
};

const isFull = "its disk is full";
const reasons: Readonly<Record<string, string>> = {
  ENOSPC: isFull,
  EDQUOT: "the quota of core's user is used up",
  EROFS: "its file system is read-only",
  EIO: "its disk fails",
  ESTALE: "its file system was unmounted or replaced",
  EACCES: "core's user may not use it",
  EPERM: "its file system forbids it: has it hard links?",
  ENOTSUP: "its file system has no hard links",
  EXDEV: "it is not on one file system",
  ENOENT: "it does not exist, or is a link to what does not exist",
  ENOTDIR: "it is a file, or its path has one",
  ELOOP: "its path has symbolic links in a circle",
};

/** Turns errors of the file system into `ObjectStoreUnavailable`, without paths. */
const withReason = async <Result>(act: () => Promise<Result>): Promise<Result> => {
  try {
    return await act();
  } catch (cause) {
    if (!(cause instanceof Error && "syscall" in cause)) throw cause;
    const code = errorCode(cause) ?? "";
    throw new ObjectStoreUnavailable(`the directory fails: ${reasons[code] ?? code}`, { cause });
  }
};

const ignoring = (code: string) => (error: unknown) => {
  if (errorCode(error) !== code) throw error;
};

const createFiles = (root: string, opened: Stats, entropy: Entropy) => {
  const unfinished = join(root, unfinishedFolder);
  /** The folder of the newest object: its own name is on the disk. */
  let syncedFolder = "";

  /** Throws unless the directory is the one that was opened, and no link leads to this folder of it. */
  const checkFolder = async (folder: string) => {
    const { dev, ino } = await lstat(root);
    if (dev !== opened.dev || ino !== opened.ino)
      throw new ObjectStoreUnavailable("the directory was replaced by another one");
    if ((await realpath(folder)) !== folder)
      throw new ObjectStoreUnavailable("the directory has a symbolic link");
  };

  const makeFolder = async (folder: string) => {
    await mkdir(folder, { mode: 0o700, recursive: true });
    await checkFolder(folder);
    if (folder === syncedFolder) return;
    for (let parent = folder; parent !== root; ) {
      parent = dirname(parent);
      await syncFolder(parent);
    }
    syncedFolder = folder;
  };

  const isStored = async (path: string, parts: readonly Uint8Array[]) => {
    const stored = await readRange(await openFile(path), path, { last: lengthOf(parts) + 1 });
    return equalBytes(stored, concatBytes(parts));
  };

  return {
    async deleteUnfinished(before: number) {
      await makeFolder(unfinished);
      for (const name of await readdir(unfinished)) {
        const path = join(unfinished, name);
        const found = await lstat(path).catch(ignoring("ENOENT"));
        if (found && found.mtimeMs < before) await rm(path, { force: true });
      }
    },
    async put(name: string, parts: readonly Uint8Array[]) {
      const path = join(root, name);
      const written = join(unfinished, entropy.bytes(16).toHex());
      await makeFolder(dirname(path));
      try {
        await writeFile(written, parts);
        await link(written, path);
      } catch (error) {
        if (errorCode(error) !== "EEXIST") throw error;
        if (!(await isStored(path, parts))) throw new ObjectExists(name);
      } finally {
        await rm(written, { force: true });
      }
      await syncFolder(dirname(path));
    },
    async read(name: string, range: ObjectRange) {
      const path = join(root, name);
      try {
        await checkFolder(dirname(path));
        return await readRange(await openFile(path), name, range);
      } catch (error) {
        if (errorCode(error) === "ELOOP") throw new ObjectChanged(name);
        if (errorCode(error) !== "ENOENT") throw error;
        // A directory that is not there has lost no object.
        await checkFolder(root);
        throw new ObjectMissing(name);
      }
    },
    async delete(names: readonly string[]) {
      for (const name of names) {
        const folder = dirname(join(root, name));
        try {
          await checkFolder(folder);
          await rm(join(root, name), { force: true });
          await syncFolder(folder);
          if (folder !== root) await rmdir(folder).catch(ignoring("ENOTEMPTY"));
        } catch (error) {
          ignoring("ENOENT")(error);
        }
      }
    },
  };
};

const writeFile = async (path: string, parts: readonly Uint8Array[]) => {
  const file = await open(path, "wx", 0o600);
  try {
    const { bytesWritten } = await file.writev(parts);
    // A full disk stores what fits.
    if (bytesWritten !== lengthOf(parts))
      throw new ObjectStoreUnavailable(`the directory fails: ${isFull}`);
    await file.sync();
  } finally {
    await file.close();
  }
};

const syncFolder = async (path: string) => {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
};

const openFile = (path: string) =>
  open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);

/** Reads a range, and closes the file. */
const readRange = async (file: FileHandle, name: string, range: ObjectRange) => {
  try {
    const found = await file.stat();
    const { offset, length } =
      "last" in range
        ? { offset: Math.max(0, found.size - range.last), length: Math.min(found.size, range.last) }
        : range;
    if (!found.isFile() || offset + length > found.size) throw new ObjectChanged(name);
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; ) {
      const { bytesRead } = await file.read(bytes, at, length - at, offset + at);
      if (bytesRead === 0) throw new ObjectChanged(name);
      at += bytesRead;
    }
    return bytes;
  } finally {
    await file.close();
  }
};

const listFiles = async (root: string, { prefix, after = "", limit }: ObjectQuery) => {
  const found: StoredObject[] = [];
  for await (const name of namesIn(root, "", { prefix, after })) {
    if (found.length === limit) break;
    const status = await lstat(join(root, name)).catch(ignoring("ENOENT"));
    if (status) found.push({ name, bytes: status.size });
  }
  return found;
};

/** Returns the names of files in order, without reading folders that have none of them. */
async function* namesIn(
  root: string,
  folder: string,
  query: { prefix: string; after: string },
): AsyncGenerator<string> {
  const { prefix, after } = query;
  const entries = await readdir(join(root, folder), { withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isFile() || entry.isDirectory())
    .map((entry) => `${folder}${entry.name}${entry.isDirectory() ? "/" : ""}`)
    .filter((name) => name !== `${unfinishedFolder}/`)
    .sort();
  for (const name of names) {
    if (name.endsWith("/")) {
      const isAfter = name > after || after.startsWith(name);
      if (isAfter && (name.startsWith(prefix) || prefix.startsWith(name)))
        yield* namesIn(root, name, query);
    } else if (name > after && name.startsWith(prefix)) yield name;
  }
}
