import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { changedMigrations, newestReleaseTag } from "./released-migrations.ts";

/** A repository of its own with these migrations, in the order of the journal. */
const createRepository = () => {
  const dir = mkdtempSync(join(tmpdir(), "released-migrations-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const git = (...args: string[]) =>
    execFileSync(
      "git",
      ["-c", "user.name=t", "-c", "user.email=t@example.test", "-c", "commit.gpgsign=false", ...args],
      {
        cwd: dir,
      },
    );
  git("init", "--quiet");
  const folder = join(dir, "drizzle/migrations");
  mkdirSync(join(folder, "meta"), { recursive: true });
  return {
    dir,
    write: (migrations: Readonly<Record<string, string>>) => {
      const entries = Object.keys(migrations).map((tag) => ({ tag }));
      writeFileSync(join(folder, "meta/_journal.json"), JSON.stringify({ entries }));
      for (const [name, text] of Object.entries(migrations)) writeFileSync(join(folder, `${name}.sql`), text);
    },
    release: (tag: string) => {
      git("add", "-A");
      git("commit", "--quiet", "--allow-empty", "-m", tag);
      git("tag", tag);
    },
  };
};

it("finds the newest release tag by version, and none in a repository without one", async () => {
  const { dir, write, release } = createRepository();
  expect(await newestReleaseTag(dir)).toBeUndefined();
  write({});
  for (const tag of ["v0.9.0", "v0.10.0", "another"]) release(tag);
  expect(await newestReleaseTag(dir)).toBe("v0.10.0");
});

it("accepts a migration that was added, and names a released one that was edited, removed, renamed or moved", async () => {
  const { dir, write, release } = createRepository();
  write({ "0000_a": "create table a ();", "0001_b": "create table b ();" });
  release("v0.2.0");
  const changed = async (migrations: Readonly<Record<string, string>>) => {
    write(migrations);
    return (await changedMigrations("v0.2.0", dir)).map((path) => path.replace("drizzle/migrations/", ""));
  };
  const [a, b] = ["create table a ();", "create table b ();"];
  expect(await changed({ "0000_a": a, "0001_b": b, "0002_c": "select 1;" })).toEqual([]);
  expect(await changed({ "0000_a": a, "0001_b": `${b}\n` })).toEqual(["0001_b.sql"]);
  expect(await changed({ "0000_a": a })).toEqual(["0001_b.sql"]);
  expect(await changed({ "0000_a": a, "0001_c": b })).toEqual(["0001_b.sql"]);
  expect(await changed({ "0001_b": b, "0000_a": a })).toEqual(["0000_a.sql", "0001_b.sql"]);
});
