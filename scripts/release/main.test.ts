import { spawnSync } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import packageJson from "#package.json" with { type: "json" };
import { newFolder } from "#tests/support/new-folder.ts";
import { git } from "../repository-files.ts";

it("refuses a commit without the version's tag, and a release without images, before it builds anything", async () => {
  const dir = newFolder();
  const args = ["scripts/release/main.ts", "--out", join(dir, "release")];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    timeout: 60_000,
  });
  expect([status, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(
    /^release: .*no --images: the manifest lists none \(--dry-run builds anyway\)\n$/,
  );
  const tag = `v${packageJson.version}`;
  const isTagged = git("tag", "--points-at", "HEAD").split("\n").includes(tag);
  expect(stderr.includes(`the commit is not tagged ${tag}`)).toBe(!isTagged);
  expect(await readdir(dir)).toEqual([]);
});
