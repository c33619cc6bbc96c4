import type { Stats } from "node:fs";
import { type FileHandle, glob, readdir, stat } from "node:fs/promises";
import { join, matchesGlob } from "node:path";
import { errorCode } from "../../../kit/describe-error.ts";
import type { FileRules } from "../source.ts";
import { openContent } from "./rotated-files.ts";

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

/** Whether the patterns select a path. */
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

/** Opens the file in `directory` for which `isIt` is true: a followed file that was renamed. */
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
