import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { repositoryFiles } from "../repository-files.ts";
import { dependencyFaults, lockFaults, unfrozenInstalls } from "./dependencies.ts";

it("U1: accepts only exact versions of the registry and the listed install scripts", () => {
  expect(
    dependencyFaults({ dependencies: { a: "1.2.3" }, optionalDependencies: { b: "1.2.3-beta.4" } }),
  ).toEqual([]);
  // A second version of a package, under another name.
  expect(dependencyFaults({ devDependencies: { "a-1.2": "npm:@s/a@1.2.3" } })).toEqual([]);
  for (const version of [
    "npm:a@^1.2.3",
    "^1.2.3",
    "~1.2.3",
    "1.x",
    "*",
    "latest",
    "",
    "git+https://example.test/a.git",
    "file:../a",
    "1.2",
  ])
    expect(dependencyFaults({ devDependencies: { a: version } })).toHaveLength(1);
  expect(dependencyFaults({ trustedDependencies: ["esbuild", "left-pad"] })).toEqual([
    expect.stringContaining("left-pad"),
  ]);
});

it("U1: accepts only packages of the registry with a digest in bun.lock, no git repository and no URL", () => {
  const lock = (entry: readonly unknown[]) => JSON.stringify({ packages: { a: entry } });
  expect(lockFaults(lock(["@s/a@1.2.3-rc.1", "", {}, "sha512-x"]))).toEqual([]);
  for (const entry of [
    ["a@git+https://example.test/a.git#abc", {}, "abc"],
    ["a@github:example/a#abc", {}, "abc"],
    ["a@https://example.test/a.tgz", {}, "sha512-x"],
    ["a@1.2.3", "https://packages.example.test/", {}, "sha512-x"],
    ["a@1.2.3", "", {}, "sha1-x"],
    ["a@1.2.3", "", {}],
    ["a@workspace:a"],
  ])
    expect(lockFaults(lock(entry)), JSON.stringify(entry)).toHaveLength(1);
  for (const path of ["bun.lock", "client/bun.lock"])
    expect(lockFaults(readFileSync(path, "utf8"))).toEqual([]);
});

it("U1: every install of the repository uses the frozen lockfile", () => {
  for (const line of [
    "bun install",
    "  if ! bun install --silent; then",
    'execute("bun", ["install"], {',
    "bun add left-pad",
  ])
    expect(unfrozenInstalls("a", line), line).toHaveLength(1);
  expect(unfrozenInstalls("a", "bun install --frozen-lockfile --silent")).toEqual([]);
  const scripts = repositoryFiles("*.sh", "*.ts", "package.json", ".ci/run").filter(
    (path) => !path.includes(".test."),
  );
  expect(scripts.length).toBeGreaterThan(100);
  expect(scripts.flatMap((path) => unfrozenInstalls(path, readFileSync(path, "utf8")))).toEqual([]);
});
