import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);
const journalFile = "drizzle/migrations/meta/_journal.json";

const git = async (cwd: string, ...args: string[]): Promise<string> =>
  (await execute("git", args, { cwd, maxBuffer: 64 * 1024 * 1024 })).stdout;

/** Returns the newest tag `v*` of a repository by version; undefined without one. */
export const newestReleaseTag = async (repository = "."): Promise<string | undefined> => {
  const [tag = ""] = (await git(repository, "tag", "--list", "v*", "--sort=-version:refname")).split("\n");
  return tag === "" ? undefined : tag;
};

/**
 * Returns the migrations of a revision that the working tree has not, or not with the same text and in the same place. Such a database
 * cannot be upgraded, which is why a released migration never changes.
 */
export const changedMigrations = async (revision: string, repository = "."): Promise<string[]> => {
  const released = (path: string) => git(repository, "show", `${revision}:${path}`);
  const present = (path: string) => readFile(join(repository, path), "utf8").catch(() => undefined);
  const before = namesIn(await released(journalFile));
  const now = namesIn((await present(journalFile)) ?? `{"entries":[]}`);
  const changed = await Promise.all(
    before.map(async (name, at) => {
      const path = `drizzle/migrations/${name}.sql`;
      const isSame = now[at] === name && (await present(path)) === (await released(path));
      return isSame ? [] : [path];
    }),
  );
  return changed.flat();
};

const namesIn = (journal: string): string[] =>
  (JSON.parse(journal) as { entries: { tag: string }[] }).entries.map(({ tag }) => tag);
