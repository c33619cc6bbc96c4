import { constants, type Stats } from "node:fs";
import { type FileHandle, glob, open, readdir, realpath, stat } from "node:fs/promises";
import { dirname, join, matchesGlob } from "node:path";
import { errorCode } from "../../../kit/describe-error.ts";

/** Selects the files of a source. */
export interface FilePatterns {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/** An open regular file. */
export interface OpenFile {
  readonly path: string;
  readonly file: FileHandle;
  readonly stat: Stats;
}

/** Whether the patterns select a path. */
export const matches = ({ include, exclude }: FilePatterns, path: string): boolean =>
  include.some((pattern) => matchesGlob(path, pattern)) && !exclude.some((pattern) => matchesGlob(path, pattern));

/** Finds the paths of one include pattern, sorted. */
export const findPaths = async (pattern: string, { exclude }: FilePatterns): Promise<string[]> => {
  const paths: string[] = [];
  for await (const path of glob(pattern)) if (!exclude.some((other) => matchesGlob(path, other))) paths.push(path);
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

/** Opens a regular file; null and errors as in `statRegularFile`. */
export const openRegularFile = async (path: string): Promise<OpenFile | null> => {
  if ((await statRegularFile(path)) === null) return null;
  try {
    // Non-blocking, in case a pipe replaced the file since.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const opened = await file.stat();
    if (opened.isFile()) return { path, file, stat: opened };
    await file.close();
    return null;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
};

/** Returns the directory of the file at `path` if `path` leads there through a symbolic link. */
export const linkedDirectory = async (path: string): Promise<string | undefined> => {
  const directory = dirname(await realpath(path).catch(() => path));
  return directory === dirname(path) ? undefined : directory;
};

/** Opens the file in `directory` for which `isIt` is true: a followed file that was renamed. */
export const findRenamed = async (directory: string, isIt: (stat: Stats) => boolean): Promise<OpenFile | null> => {
  const names = await readdir(directory).catch(() => []);
  for (const name of names) {
    const candidate = await stat(join(directory, name)).catch(() => null);
    if (candidate === null || !isIt(candidate)) continue;
    const opened = await openRegularFile(join(directory, name));
    if (opened !== null && isIt(opened.stat)) return opened;
    await opened?.file.close();
  }
  return null;
};

const isMissing = (error: unknown): boolean => ["ENOENT", "ENOTDIR"].includes(errorCode(error) ?? "");
