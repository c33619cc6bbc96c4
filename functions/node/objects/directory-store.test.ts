import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ObjectChanged, ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { itKeepsObjects } from "#tests/support/object-store-laws.ts";
import { openDirectoryStore } from "./directory-store.ts";

const open = (path: string) =>
  openDirectoryStore(path, { clock: systemClock, entropy: systemEntropy });

const openNew = async () => {
  const path = join(newFolder(), "objects");
  return { path, store: await open(path) };
};

const bytes = new TextEncoder().encode("telemetry");

describe("the laws", () => {
  itKeepsObjects(async () => (await openNew()).store);
});

it("refuses a directory that others may write, a file, and one whose parent is missing", async () => {
  const folder = newFolder();
  mkdirSync(join(folder, "open"));
  chmodSync(join(folder, "open"), 0o777);
  writeFileSync(join(folder, "file"), "");
  for (const name of ["open", "file", "missing/objects"])
    await expect(open(join(folder, name))).rejects.toThrow(ObjectStoreUnavailable);
});

it("neither writes, reads nor deletes through a symbolic link", async () => {
  const { path, store } = await openNew();
  const elsewhere = newFolder();
  writeFileSync(join(elsewhere, "a"), bytes);
  symlinkSync(elsewhere, join(path, "o"));
  await expect(store.put("o/b", [bytes])).rejects.toThrow("symbolic link");
  await expect(store.read("o/a", { last: 9 })).rejects.toThrow("symbolic link");
  await expect(store.delete(["o/a"])).rejects.toThrow("symbolic link");
  expect(readdirSync(elsewhere)).toEqual(["a"]);
  expect(await store.list({ prefix: "", limit: 9 })).toEqual([]);
  symlinkSync(join(elsewhere, "a"), join(path, "c"));
  await expect(store.read("c", { last: 9 })).rejects.toThrow(ObjectChanged);
});

it("reports a truncated object, and a folder in the place of one", async () => {
  const { path, store } = await openNew();
  await store.put("o/a", [bytes]);
  truncateSync(join(path, "o/a"), 4);
  mkdirSync(join(path, "o/b"));
  await expect(store.read("o/a", { offset: 0, length: 9 })).rejects.toThrow(ObjectChanged);
  await expect(store.read("o/b", { last: 9 })).rejects.toThrow(ObjectChanged);
});

it("is unavailable, and misses no object, while another directory is in its place", async () => {
  const { path, store } = await openNew();
  await store.put("o/a", [bytes]);
  renameSync(path, `${path}-away`);
  await expect(store.read("o/a", { last: 9 })).rejects.toThrow("it does not exist");
  mkdirSync(path);
  await expect(store.read("o/a", { last: 9 })).rejects.toThrow("replaced");
  await expect(store.put("o/b", [bytes])).rejects.toThrow("replaced");
});

it("is unavailable when the disk takes a part of an object, and leaves nothing of it", () => {
  const path = join(newFolder(), "objects");
  const program = `
    const { openDirectoryStore } = await import("#functions/node/objects/directory-store.ts");
    const { systemClock } = await import("#kit/clock.ts");
    const { systemEntropy } = await import("#kit/entropy.ts");
    const store = await openDirectoryStore(${JSON.stringify(path)}, { clock: systemClock, entropy: systemEntropy });
    await store.put("o/a", [new Uint8Array(900), new Uint8Array(900)]).catch((error) => console.log(error.name));`;
  // Files of at most 1 KiB: the first part of the object fits.
  const limited = ["-c", 'ulimit -f 1; exec "$0" --input-type=module -e "$1"'];
  const { stdout } = spawnSync("bash", [...limited, process.execPath, program], {
    encoding: "utf8",
  });
  expect(stdout).toBe("ObjectStoreUnavailable\n");
  expect(readdirSync(join(path, "unfinished"))).toEqual([]);
  expect(readdirSync(join(path, "o"))).toEqual([]);
});

it("deletes unfinished files of killed cores after a day", async () => {
  const { path, store } = await openNew();
  await store.put("o/a", [bytes]);
  writeFileSync(join(path, "unfinished/old"), "");
  writeFileSync(join(path, "unfinished/new"), "");
  utimesSync(join(path, "unfinished/old"), 0, Date.now() / 1000 - 90_000);
  await open(path);
  expect(readdirSync(join(path, "unfinished"))).toEqual(["new"]);
  expect(readFileSync(join(path, "o/a"), "utf8")).toBe("telemetry");
});
