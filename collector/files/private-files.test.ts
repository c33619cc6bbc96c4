import {
  chmod,
  lstat,
  mkdtemp,
  readdir,
  readFile,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { systemEntropy } from "#kit/entropy.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import {
  makeOwnDirectory,
  makePrivateDirectory,
  switchLink,
  writeDurably,
} from "./private-files.ts";

let dir: string;
beforeEach(async () => {
  dir = newFolder();
});

describe("writeDurably", () => {
  it("R6: rejects a link planted under the temporary name, and does not touch its target", async () => {
    const victim = join(dir, "victim");
    await writeFile(victim, "untouched");
    await symlink(victim, join(dir, `.key.${createSeededEntropy().bytes(8).toHex()}`));
    await expect(
      writeDurably(join(dir, "key"), "secret", { entropy: createSeededEntropy() }),
    ).rejects.toMatchObject({
      code: "EEXIST",
    });
    expect(await readFile(victim, "utf8")).toBe("untouched");
    expect(await readdir(dir)).not.toContain("key");
  });

  it("R6: replaces a link at the path itself by a private file, and leaves no temporary file", async () => {
    const victim = join(dir, "victim");
    await writeFile(victim, "untouched", { mode: 0o644 });
    await symlink(victim, join(dir, "key"));
    await writeDurably(join(dir, "key"), "secret", { entropy: systemEntropy });
    expect((await lstat(join(dir, "key"))).isFile()).toBe(true);
    expect((await stat(join(dir, "key"))).mode & 0o777).toBe(0o600);
    expect(await readFile(victim, "utf8")).toBe("untouched");
    expect((await readdir(dir)).sort()).toEqual(["key", "victim"]);
  });
});

it("makePrivateDirectory makes an open directory private, and rejects a link in its place", async () => {
  const path = join(dir, "identity");
  await makePrivateDirectory(path);
  await chmod(path, 0o755);
  await makePrivateDirectory(path);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
  await symlink(path, join(dir, "linked"));
  await expect(makePrivateDirectory(join(dir, "linked"))).rejects.toThrow("not a link");
});

describe("makeOwnDirectory", () => {
  const makeDirectory = async (mode: number, ...names: string[]) => {
    const path = await mkdtemp(join(dir, "chosen-"));
    for (const name of names) await writeFile(join(path, name), "");
    await chmod(path, mode);
    return path;
  };
  const modeOf = async (path: string) => (await stat(path)).mode & 0o7777;

  it("makes a new or empty directory private, and one that has the collector's own files", async () => {
    for (const path of [
      join(dir, "new"),
      await makeDirectory(0o755),
      await makeDirectory(0o775, "queue.db", "other"),
    ]) {
      await makeOwnDirectory(path, ["queue.db"]);
      expect(await modeOf(path)).toBe(0o700);
    }
  });

  it("changes no directory that is shared with others", async () => {
    const shared = [[0o755, "other"], [0o1777, "other"], [0o1777], [0o1777, "queue.db"]] as const;
    for (const [mode, ...names] of shared) {
      const path = await makeDirectory(mode, ...names);
      await expect(makeOwnDirectory(path, ["queue.db"])).rejects.toThrow("shared with others");
      expect(await modeOf(path)).toBe(mode);
    }
    const own = await makeDirectory(0o700, "other");
    await makeOwnDirectory(own, ["queue.db"]);
    expect(await modeOf(own)).toBe(0o700);
  });
});

it("switchLink creates or changes a link in one step", async () => {
  for (const target of ["a", "b"]) {
    await writeFile(join(dir, target), target);
    await switchLink(join(dir, "current"), target, { entropy: systemEntropy });
    expect(await readFile(join(dir, "current"), "utf8")).toBe(target);
  }
  expect((await readdir(dir)).sort()).toEqual(["a", "b", "current"]);
});
