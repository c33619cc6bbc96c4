import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { historyFile, renderHistory } from "../generate/migration-history.ts";
import { breakingParts } from "./additive-migrations.ts";
import {
  changedMigrations,
  historyFaults,
  type LandedRevision,
  landedRevisions,
  newestReleaseTag,
} from "./landed-migrations.ts";

const inTemporaryFolder = () => {
  const dir = newFolder();
  return dir;
};

/** A repository of its own with these migrations, in the order of the journal. */
const createRepository = (dir = inTemporaryFolder()) => {
  const git = (...args: string[]) =>
    execFileSync(
      "git",
      [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.test",
        "-c",
        "commit.gpgsign=false",
        ...args,
      ],
      {
        cwd: dir,
        encoding: "utf8",
      },
    ).trim();
  const folder = join(dir, "drizzle/migrations");
  return {
    dir,
    git,
    init: () => git("init", "--quiet", "--initial-branch=main"),
    write: (migrations: Readonly<Record<string, string>>) => {
      mkdirSync(join(folder, "meta"), { recursive: true });
      const entries = Object.keys(migrations).map((tag) => ({ tag }));
      writeFileSync(join(folder, "meta/_journal.json"), JSON.stringify({ entries }));
      for (const [name, text] of Object.entries(migrations))
        writeFileSync(join(folder, `${name}.sql`), text);
    },
    writeHistory: (
      migrations: Readonly<Record<string, string>>,
      definitions: readonly string[] = [],
    ) =>
      writeFileSync(
        join(dir, historyFile),
        JSON.stringify({ earlier_baselines: {}, migrations, definitions }),
      ),
    commit: (message: string) => {
      git("add", "-A");
      git("commit", "--quiet", "--allow-empty", "-m", message);
      return git("rev-parse", "HEAD");
    },
  };
};
const namesOf = (revisions: readonly LandedRevision[]) => revisions.map(({ name }) => name);
const sha256Of = (text: string) => hash("sha256", text);
const a = "create table a ();";
const b = "create table b ();";

it("finds the newest release tag by version, and none in a repository without one", async () => {
  const { dir, git, init, write, commit } = createRepository();
  init();
  expect(await newestReleaseTag(dir)).toBeUndefined();
  write({});
  for (const tag of ["v0.9.0", "v0.10.0", "another"]) {
    commit(tag);
    git("tag", tag);
  }
  expect(await newestReleaseTag(dir)).toBe("v0.10.0");
});

it("accepts a migration that was added, and names a landed one that was edited, removed, renamed or moved", async () => {
  const { dir, init, write, commit } = createRepository();
  init();
  write({ "0000_a": a, "0001_b": b });
  const landed = commit("landed");
  const changed = async (migrations: Readonly<Record<string, string>>) => {
    write(migrations);
    return (await changedMigrations(landed, dir)).map((path) =>
      path.replace("drizzle/migrations/", ""),
    );
  };
  expect(await changed({ "0000_a": a, "0001_b": b, "0002_c": "select 1;" })).toEqual([]);
  expect(await changed({ "0000_a": a, "0001_b": `${b}\n` })).toEqual(["0001_b.sql"]);
  expect(await changed({ "0000_a": a })).toEqual(["0001_b.sql"]);
  expect(await changed({ "0000_a": a, "0001_c": b })).toEqual(["0001_b.sql"]);
  expect(await changed({ "0001_b": b, "0000_a": a })).toEqual(["0000_a.sql", "0001_b.sql"]);
});

it("compares every kind of checkout with what main has", async () => {
  const { dir, git, init, write, commit } = createRepository();
  init();
  write({ "0000_a": a });
  const first = commit("first");
  expect(await landedRevisions(dir)).toEqual([{ name: "HEAD", commit: first }]);
  const second = commit("second");
  const onMain = [
    { name: "HEAD", commit: second },
    { name: "HEAD~1", commit: first },
  ];
  expect(await landedRevisions(dir)).toEqual(onMain);

  git("switch", "--quiet", "--create", "work");
  commit("third");
  expect(await landedRevisions(dir)).toEqual([
    { name: "the merge base with main", commit: second },
  ]);
  git("switch", "--quiet", "main");

  const cloneOf = (...args: string[]) => {
    const to = join(inTemporaryFolder(), "clone");
    git("clone", "--quiet", ...args, `file://${dir}`, to);
    return createRepository(to);
  };
  const clone = cloneOf();
  expect(await landedRevisions(clone.dir)).toEqual(onMain);
  clone.commit("local");
  expect(await landedRevisions(clone.dir)).toEqual([
    { name: "the merge base with origin/main", commit: second },
  ]);
  clone.git("checkout", "--quiet", "--detach", second);
  for (const ref of ["refs/remotes/origin/main", "refs/heads/main"])
    clone.git("update-ref", "-d", ref);
  expect(await landedRevisions(clone.dir)).toEqual(onMain);
  expect(namesOf(await landedRevisions(cloneOf("--depth=1").dir))).toEqual(["HEAD"]);
  expect(await landedRevisions(inTemporaryFolder())).toEqual([]);
  expect(await landedRevisions(dir, "HEAD~1")).toEqual([{ name: "HEAD~1", commit: first }]);
  await expect(landedRevisions(dir, "nowhere")).rejects.toThrow(
    "VERIFY_BASE: git has no commit nowhere",
  );
});

it("rejects an edit without any git, by the digests in history.json", async () => {
  const repository = createRepository();
  const { dir, write, writeHistory } = repository;
  mkdirSync(join(dir, "drizzle/sql"), { recursive: true });
  write({ "0000_a": a, "0000_baseline_edits": "" });
  writeHistory({ "0000_a": sha256Of(a), "0000_gone": "0" });
  expect(await historyFaults(dir)).toEqual([
    "drizzle/migrations/0000_gone.sql is missing, but in drizzle/migrations/history.json",
  ]);
  write({ "0000_a": b });
  expect(await historyFaults(dir)).toContain(
    "drizzle/migrations/0000_a.sql is not as in drizzle/migrations/history.json",
  );
  write({ "0000_a": a, "0001_b": b });
  expect(JSON.parse(await renderHistory(dir))).toEqual({
    earlier_baselines: {},
    migrations: {
      "0000_a": sha256Of(a),
      "0000_baseline_edits": sha256Of(""),
      "0000_gone": "0",
      "0001_b": sha256Of(b),
    },
    definitions: [sha256Of("")],
  });
});

it("rejects a history.json that lost or changed an entry which main has", async () => {
  const { dir, init, write, writeHistory, commit } = createRepository();
  init();
  write({});
  writeHistory({ "0000_a": "1" }, ["x"]);
  const landed = commit("landed");
  const changed = async (...history: Parameters<typeof writeHistory>) => {
    writeHistory(...history);
    return changedMigrations(landed, dir);
  };
  expect(await changed({ "0000_a": "1", "0001_b": "2" }, ["x", "y"])).toEqual([]);
  for (const [migrations, definitions] of [
    [{ "0000_a": "2" }, ["x"]],
    [{}, ["x"]],
    [{ "0000_a": "1" }, ["y"]],
    [{ "0000_a": "1" }, []],
  ] as const)
    expect(await changed(migrations, definitions)).toEqual([historyFile]);
});

it("is red for an edit of this repository's baseline", async () => {
  const dir = inTemporaryFolder();
  cpSync("drizzle", join(dir, "drizzle"), { recursive: true });
  expect(await historyFaults(dir)).toEqual([]);
  const path = "drizzle/migrations/0000_baseline.sql";
  writeFileSync(join(dir, path), "select 1;");
  expect(await historyFaults(dir)).toEqual([`${path} is not as in ${historyFile}`]);
});

it.each([
  [
    "create table t (id int primary key); create unique index u on t (id); alter table t add constraint c check (id > 0)",
    [],
  ],
  [
    "alter table t add column c text; alter table t add column d int default 0 not null; create index i on t (c)",
    [],
  ],
  ["drop index i; update t set c = ''; alter table t alter column c set default 'x'", []],
  ["drop table t", ["DropStmt"]],
  ["alter table t drop column c", ["DropColumn c on t"]],
  ["alter table t add column c int not null", ["AddColumn c on t"]],
  ["alter table t alter column c set not null", ["SetNotNull c on t"]],
  ["alter table t alter column c type text", ["AlterColumnType c on t"]],
  ["alter table t rename column c to d", ["RenameStmt on t"]],
  ["alter table t add constraint k check (c > 0)", ["AddConstraint k on t"]],
  ["create unique index u on t (c)", ["a unique index on t, which the previous core may violate"]],
  ["delete from t", ["DeleteStmt on t"]],
  ["do $$ begin end $$", ["DoStmt"]],
])("finds what the previous core would not survive: %s", async (sql, parts) => {
  expect(await breakingParts(sql)).toEqual(parts);
});
