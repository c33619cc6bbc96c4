import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { acquireFileLock } from "./lock.ts";

let dir: string;
beforeEach(() => {
  dir = newFolder();
});

it("is acquired by one at a time, and by the next after its release", () => {
  const path = join(dir, "lock");
  const lock = acquireFileLock(path);
  expect(lock).not.toBeNull();
  expect(acquireFileLock(path)).toBeNull();
  lock?.release();
  acquireFileLock(path)?.release();
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

it("reports every failure but another owner as an error, not as another process", () => {
  const directory = join(dir, "directory");
  mkdirSync(directory);
  expect(() => acquireFileLock(directory)).toThrow("must be a regular file");
  expect(() => acquireFileLock(join(dir, "missing", "lock"))).toThrow("ENOENT");
  // SQLite cannot create its journal beside the file.
  const path = join(dir, "lock");
  writeFileSync(path, "");
  mkdirSync(`${path}-journal`);
  expect(() => acquireFileLock(path)).toThrow(/disk I\/O error|unable to open/);
});

it("is acquired on a file that is not a database, which no process can have locked", () => {
  const path = join(dir, "lock");
  writeFileSync(path, "x".repeat(5_000));
  const lock = acquireFileLock(path);
  expect(lock).not.toBeNull();
  lock?.release();
});
