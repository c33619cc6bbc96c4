import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { SchemaHistory } from "#functions/node/read-migrations.ts";
import { execute } from "../execute.ts";
import { historyFile, readSchema, recordedFiles } from "../generate/migration-history.ts";

const journalFile = "drizzle/migrations/meta/_journal.json";

const git = async (cwd: string, ...args: string[]): Promise<string> =>
  (await execute("git", args, { cwd, maxBuffer: 64 * 1024 * 1024 })).stdout;

/** Returns the newest tag `v*` of a repository by version; undefined without one. */
export const newestReleaseTag = async (repository = "."): Promise<string | undefined> => {
  const [tag = ""] = (
    await git(repository, "tag", "--list", "v*", "--sort=-version:refname")
  ).split("\n");
  return tag === "" ? undefined : tag;
};

/** A revision whose migrations have landed. */
export interface LandedRevision {
  /** As it was found: `v0.2.0`, `origin/main`, `HEAD~1`. */
  name: string;
  commit: string;
}

/**
 * Returns the revisions of main that the working tree follows: the newest tag `v*`, and `base` or else the merge base of HEAD with
 * origin/main or main. When that is HEAD, or neither ref is here (a detached checkout): HEAD and its parent, as far as the clone has them.
 */
export const landedRevisions = async (
  repository = ".",
  base: string | undefined = process.env.VERIFY_BASE,
): Promise<LandedRevision[]> => {
  const resolved = async (name: string): Promise<LandedRevision[]> => {
    const commit = await git(
      repository,
      "rev-parse",
      "--verify",
      "--quiet",
      "--end-of-options",
      `${name}^{commit}`,
    ).catch(() => "");
    return commit === "" ? [] : [{ name, commit: commit.trim() }];
  };
  const tag = await newestReleaseTag(repository).catch(() => undefined);
  const tagged = tag === undefined ? [] : await resolved(tag);
  if (base !== undefined && base !== "") {
    const given = await resolved(base);
    if (given.length === 0) throw new Error(`VERIFY_BASE: git has no commit ${base}`);
    return [...tagged, ...given];
  }
  const [head] = await resolved("HEAD");
  const main = (await resolved("origin/main"))[0] ?? (await resolved("main"))[0];
  if (head === undefined) return tagged;
  const fork =
    main && (await git(repository, "merge-base", head.commit, main.commit).catch(() => "")).trim();
  if (main !== undefined && fork && fork !== head.commit)
    return [...tagged, { name: `the merge base with ${main.name}`, commit: fork }];
  return [...tagged, head, ...(await resolved("HEAD~1"))];
};

/**
 * Returns the files of a landed revision that the working tree has not, or not with the same text and in the same place. A database of
 * that revision cannot be upgraded then, which is why a migration never changes once main has it.
 */
export const changedMigrations = async (revision: string, repository = "."): Promise<string[]> => {
  const landed = async (path: string): Promise<string | undefined> =>
    (await git(repository, "ls-tree", "--name-only", revision, "--", path)) === ""
      ? undefined
      : git(repository, "show", `${revision}:${path}`);
  const present = (path: string) => readFile(join(repository, path), "utf8").catch(() => undefined);
  const before = namesIn(await landed(journalFile));
  const now = namesIn(await present(journalFile));
  const changed = await Promise.all(
    before.map(async (name, at) => {
      const path = `drizzle/migrations/${name}.sql`;
      const isSame = now[at] === name && (await present(path)) === (await landed(path));
      return isSame ? [] : [path];
    }),
  );
  return [
    ...changed.flat(),
    ...(keeps(await present(historyFile), await landed(historyFile)) ? [] : [historyFile]),
  ];
};

const namesIn = (journal: string | undefined): string[] =>
  journal === undefined
    ? []
    : (JSON.parse(journal) as { entries: { tag: string }[] }).entries.map(({ tag }) => tag);

/** Reports whether the later text has all entries of the earlier one. */
const keeps = (later: string | undefined, earlier: string | undefined): boolean => {
  if (earlier === undefined) return true;
  const [now, before] = [later ?? "{}", earlier].map(
    (text) => JSON.parse(text) as Partial<SchemaHistory>,
  );
  const hasAll = (member: "earlier_baselines" | "migrations") =>
    Object.entries(before?.[member] ?? {}).every(([key, value]) => now?.[member]?.[key] === value);
  return (
    hasAll("earlier_baselines") &&
    hasAll("migrations") &&
    (before?.definitions ?? []).every((digest, at) => now?.definitions?.[at] === digest)
  );
};

/** Returns what differs between the migrations and their digests in history.json. Needs no git. */
export const historyFaults = async (repository = "."): Promise<string[]> => {
  const { history, files } = await readSchema(repository);
  const present = new Map(recordedFiles(files).map(({ name, sha256 }) => [name, sha256]));
  return Object.entries(history.migrations).flatMap(([name, sha256]) =>
    present.get(name) === sha256
      ? []
      : [
          `drizzle/migrations/${name}.sql ${present.has(name) ? "is not as" : "is missing, but"} in ${historyFile}`,
        ],
  );
};
