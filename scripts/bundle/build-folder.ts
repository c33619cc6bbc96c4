import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { oneAtATime } from "../one-at-a-time.ts";

/** One folder of build output. */
export interface FolderBuild {
  folder: string;
  /** The folder that input paths are relative to. */
  root: string;
  /** Builds into `outDir`; returns the paths of the files that the output depends on. */
  build(outDir: string): Promise<string[]>;
  /** Returns the inputs as they are now, where a new file can change the output; by default those of the last build. */
  listInputs?(): Promise<string[]>;
  /** Files with a fixed name, which refer to files with a hash in their name. They are installed last. */
  entryFiles: readonly string[];
}

const inputsFile = "INPUTS.json";
const keptMs = 7 * 24 * 3_600_000;
/** The kernel stamps files with a coarse clock, which is up to some ticks behind `Date.now()`. */
const clockLagMs = 100;

/**
 * Builds `folder`, unless it was built from the same inputs. Several processes may call it at once: one builds, the others wait for it.
 * The build runs in a new folder; its files are then renamed into `folder` one by one, so that a program that starts or runs from
 * there finds every file it refers to. Files of older builds stay for a week, because a running program may load them later.
 */
export const buildFolder = async (build: FolderBuild): Promise<void> => {
  if (await isCurrent(build)) return;
  const parent = dirname(build.folder);
  await mkdir(parent, { recursive: true });
  await oneAtATime(join(parent, `.${basename(build.folder)}-lock`), async () => {
    // Another process may have built it meanwhile.
    if (!(await isCurrent(build))) await rebuild(build);
  });
};

/** Writes `content` to `path` in one step, unless the file holds it already. */
export const replaceFile = async (path: string, content: string): Promise<void> => {
  if ((await readFile(path, "utf8").catch(() => null)) === content) return;
  const temporary = `${path}.${process.pid}`;
  await writeFile(temporary, content);
  await rename(temporary, path);
};

const isCurrent = async ({ folder, root, listInputs }: FolderBuild): Promise<boolean> => {
  try {
    const recorded: Record<string, string> = JSON.parse(
      await readFile(join(folder, inputsFile), "utf8"),
    );
    const paths = (await listInputs?.()) ?? Object.keys(recorded);
    if (paths.length !== Object.keys(recorded).length) return false;
    const digests = await Promise.all(paths.map((path) => digestOf(join(root, path))));
    return paths.every((path, index) => recorded[path] === digests[index]);
  } catch {
    return false;
  }
};

const rebuild = async ({ folder, root, build, entryFiles }: FolderBuild): Promise<void> => {
  const outDir = await mkdtemp(`${folder}-`);
  try {
    const startedAt = Date.now();
    const inputs = await build(outDir);
    const recorded = await Promise.all(
      // A file that changed during the build may have been read before: without its digest the next call builds again.
      inputs.map(async (path) => [
        path,
        (await changedSince(join(root, path), startedAt - clockLagMs))
          ? ""
          : await digestOf(join(root, path)),
      ]),
    );
    const files = await filesBelow(outDir);
    await installFiles(outDir, folder, [
      ...files.filter((file) => !entryFiles.includes(file)),
      ...entryFiles,
    ]);
    await replaceFile(join(folder, inputsFile), JSON.stringify(Object.fromEntries(recorded)));
    await removeOldFiles(folder, new Set([...files, inputsFile]), startedAt - keptMs);
  } finally {
    await rm(outDir, { recursive: true, force: true });
  }
};

const installFiles = async (from: string, to: string, files: readonly string[]): Promise<void> => {
  for (const file of files) {
    await mkdir(dirname(join(to, file)), { recursive: true });
    await rename(join(from, file), join(to, file));
  }
};

const removeOldFiles = async (
  folder: string,
  current: ReadonlySet<string>,
  before: number,
): Promise<void> => {
  for (const file of await filesBelow(folder))
    if (!current.has(file) && !(await changedSince(join(folder, file), before)))
      await rm(join(folder, file));
};

/** Returns the paths of the files below `folder`, relative to it, in order. */
export const filesBelow = async (folder: string): Promise<string[]> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
};

const digestOf = async (path: string): Promise<string> =>
  createHash("sha256")
    .update(await readFile(path))
    .digest("base64");

const changedSince = async (path: string, timestamp: number): Promise<boolean> =>
  (await stat(path)).mtimeMs >= timestamp;
