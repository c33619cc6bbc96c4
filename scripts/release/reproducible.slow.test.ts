import { hash } from "node:crypto";
import { chmod, mkdir, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { bundleProgram, programEntries } from "../bundle/bundle-programs.ts";
import { packTarball } from "../bundle/pack-tarball.ts";
import { buildExecutable } from "../package-collector/build-executable.ts";

let dir: string;
beforeEach(async () => {
  dir = newFolder();
});

const hashOf = async (path: string) => hash("sha256", await readFile(path));

it("U2: a tarball has the same hash whatever the order, times and modes of its files are", async () => {
  const timestamp = new Date("2026-01-02T03:04:05Z");
  const pack = async (name: string, mode: number, time: number, reverse: boolean) => {
    await mkdir(join(dir, name));
    const paths = ["b", "a"].map((file) => join(dir, name, file));
    for (const path of paths) {
      await writeFile(path, path.slice(-1), { mode });
      await chmod(path, mode);
      await utimes(path, time, time);
    }
    const files = paths.map((path) => ({ name: `x/${path.slice(-1)}`, from: path }));
    const output = join(dir, `${name}.tar.gz`);
    await packTarball(output, reverse ? files.reverse() : files, timestamp);
    return hashOf(output);
  };
  const first = await pack("first", 0o600, 1_000_000, false);
  expect(await pack("second", 0o755, 2_000_000, true)).toBe(first);
});

it("U2: bundle and executable built in two folders have the same hashes", async () => {
  const build = async (name: string) => {
    const folder = join(dir, name);
    await bundleProgram(programEntries["svc-release-manifest"], join(folder, "bundle"));
    const { executable } = await buildExecutable(folder, "commit\n");
    return Promise.all([join(folder, "bundle/program.mjs"), executable].map(hashOf));
  };
  const first = await build("first");
  expect(await build("second-folder")).toEqual(first);
});
