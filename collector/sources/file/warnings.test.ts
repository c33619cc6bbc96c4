import { mkdirSync, renameSync, symlinkSync, unlinkSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createMounts } from "#collector/files/mounts.ts";
import { systemClock } from "#kit/clock.ts";
import { createTestFiles, lines, settle } from "#tests/collector/support/file-source.ts";
import { eventually } from "#tests/support/eventually.ts";
import { createDirectoryWatch } from "./directory-watch.ts";
import { createFileSource } from "./file-source.ts";
import { createSourceFiles } from "./source-files.ts";

let files: ReturnType<typeof createTestFiles>;

beforeEach(() => {
  files = createTestFiles();
});

afterEach(() => files.end());

const at = (name: string) => join(files.dir, name);
/** Returns the codes of the source's warnings, each with its path and its count. */
const warned = () =>
  (files.source?.warnings?.() ?? []).map(({ code, path, count }) => [code, path, count]);

it("warns of patterns that find nothing, and of those that name a directory", async () => {
  mkdirSync(files.log("app"));
  symlinkSync("app", files.log("link"));
  const include = ["none/*.log", `logs/\${env:APP}/*.log`, "logs/app", "logs/link", "logs/*.log"];
  await files.start({ include: include.map(at) });
  const noMatch = include.slice(0, 2).map((pattern) => ["no_match", at(pattern), 1]);
  expect(warned()).toEqual([
    ...noMatch,
    ["no_match", files.log("*.log"), 1],
    ["directory", files.log("app"), 2],
  ]);
  expect(files.source?.warnings?.()[1]?.message).toContain("variables are not expanded");
  files.write(1, 2);
  await files.expectTexts(lines(1, 2));
  expect(warned()).toEqual([...noMatch, ["directory", files.log("app"), 2]]);
});

it("warns of hidden files and linked directories that a pattern passes over, and not of excluded ones", async () => {
  for (const name of [".git", ".kept", "app"]) mkdirSync(files.log(name));
  for (const name of [".a.log", ".b.log", ".c.txt", ".git/d.log", ".kept/e.log", "app/f.log"])
    writeFileSync(files.log(name), "line 1\n");
  for (const [target, name] of [
    ["app", "releases"],
    ["app/f.log", "g.log"],
    ["missing", "h.log"],
  ] as const)
    symlinkSync(target, files.log(name));
  const include = [files.log("**/*.log"), files.log(".kept/*.log")];
  await files.start({ include, exclude: [files.log(".b.log")] });
  expect(warned()).toEqual([
    ["hidden", files.log(".a.log"), 3],
    ["linked", files.log("releases"), 1],
  ]);
  await files.restart({ include, followLinks: true, hidden: true });
  expect(warned()).toEqual([]);
});

it("counts the directories that cannot be listed, and the files that cannot be read", async () => {
  const real = createSourceFiles(createMounts(systemClock));
  const denied = Object.assign(new Error(), { code: "EACCES", syscall: "open" });
  const isDenied = (path: string) => path.includes("denied");
  for (const name of ["denied", "denied-2", "app"]) mkdirSync(files.log(name));
  for (const name of ["a", "b", "denied"]) writeFileSync(files.log(`app/${name}.log`), "line\n");
  mkdirSync(at("own"));
  writeFileSync(at("own/key.log"), "secret\n");
  for (const name of ["a", "b"]) symlinkSync(at("own/key.log"), files.log(`${name}.log`));
  await files.start(
    { include: [files.log("**/*.log")], rules: { neverRead: [at("own")] } },
    {
      ...real,
      list: (path) => (isDenied(path) ? Promise.reject(denied) : real.list(path)),
      open: (path, rules) => (isDenied(path) ? Promise.reject(denied) : real.open(path, rules)),
    },
  );
  expect(files.source?.warnings?.().map(({ level: _, ...warning }) => warning)).toEqual([
    {
      code: "unlisted",
      path: files.log("denied"),
      count: 2,
      message: "a directory that this user may not list",
    },
    {
      code: "unreadable",
      path: files.log("a.log"),
      count: 2,
      message:
        "may not be read: it belongs to the collector: its identity, its config or its queue",
    },
    {
      code: "unreadable",
      path: files.log("app/denied.log"),
      count: 1,
      message: "cannot be read (EACCES)",
    },
  ]);
});

it("F7: warns of files that look like UTF-16, until they are read as that", async () => {
  const text = Buffer.from("\u0441\u0442\u0440\u043e\u043a\u0430 1\n", "utf16le");
  for (const name of ["a", "b"]) writeFileSync(files.log(`${name}.log`), text);
  files.write(1, 1);
  await files.start();
  await eventually(() => expect(warned()).toEqual([["utf16", files.log("a.log"), 2]]));
  expect(files.source?.warnings?.()[0]?.message).toContain("`encoding: utf-16le`");
  await files.restart({ encoding: "utf-16le" });
  await settle();
  expect(warned()).toEqual([]);
});

it("warns of files that another source stores a second time", async () => {
  files.write(1, 2);
  files.write(3, 3, "b.log");
  const shared = createSourceFiles(createMounts(systemClock));
  await files.start({}, shared);
  await files.expectTexts(lines(1, 3));
  expect(warned()).toEqual([]);
  const second = createFileSource(
    { include: [files.log("app.log")], exclude: [], startAt: "end", rules: { neverRead: [] } },
    {
      append: files.queue.append,
      refused: () => undefined,
      checkpoints: files.queue.checkpoints,
      clock: systemClock,
      log: files.logged,
      files: shared,
    },
  );
  await second.start();
  expect(warned()).toEqual([["shared", files.log(), 1]]);
  expect(second.warnings?.()).toEqual(files.source?.warnings?.());
  files.write(4, 4);
  await files.expectTexts([...lines(1, 4), "line 4"]);
  await second.stop();
  expect(warned()).toEqual([]);
});

it("F5: is at risk while files wait for a minute to be opened, and says how many", async () => {
  for (const name of ["a", "b", "c"]) files.write(1, 1, `${name}.log`);
  files.storeBy((records, { signal } = {}) => {
    const { promise, resolve, reject } = Promise.withResolvers<"stored">();
    signal?.addEventListener("abort", reject);
    if (!("count" in records)) resolve("stored");
    return promise;
  });
  await files.start({ maxHeldFiles: 1 });
  await eventually(() => expect(warned()).toEqual([["waiting", files.log("b.log"), 2]]));
  expect(files.source?.condition?.()).toBeUndefined();
  files.skip(61_000);
  await eventually(() =>
    expect(files.source?.condition?.()).toMatchObject({
      code: "files_waiting",
      reason: expect.stringContaining("until others are closed: 2;"),
    }),
  );
});

it("L5: counts a file that was deleted before it could be opened as a gap of what it had", async () => {
  const real = createSourceFiles(createMounts(systemClock));
  const failing = new Set<string>();
  for (const name of ["app", "kept", "moved"]) files.write(1, 2, `${name}.log`);
  for (const name of ["app", "moved"]) failing.add(files.log(`${name}.log`));
  await files.start(
    {},
    {
      ...real,
      open: (path, rules) =>
        failing.has(path) ? Promise.reject(new Error("no")) : real.open(path, rules),
    },
  );
  await files.expectTexts(lines(1, 2));
  renameSync(files.log("moved.log"), files.log("found.log"));
  unlinkSync(files.log());
  await eventually(() =>
    expect(files.queue.stats()).toMatchObject({ fileGaps: 1, fileGapBytes: 14, records: 4 }),
  );
  await settle();
  expect(files.queue.stats().fileGaps).toBe(1);
});

it("notes file systems that report no changes, and watches that are refused", async () => {
  const mountinfo = "1 0 0:1 / / rw - nfs4 server:/ rw";
  files.write(1, 1);
  await files.start({}, createSourceFiles(createMounts(systemClock, () => mountinfo)));
  expect(files.source?.warnings?.()).toMatchObject([{ code: "polled", level: "note", path: "/" }]);

  let now = 0;
  let isFull = true;
  const directoryWatch = createDirectoryWatch({ monotonic: () => now }, () => undefined, ((
    ...call: Parameters<typeof watch>
  ) => {
    if (isFull) throw Object.assign(new Error(), { code: "ENOSPC" });
    return watch(...call);
  }) as typeof watch);
  const reports = () => {
    now += 10_000;
    directoryWatch.reports(files.dir, "ext4");
    return directoryWatch.isRefused(files.dir);
  };
  expect([reports(), reports()]).toEqual([false, true]);
  isFull = false;
  expect(reports()).toBe(false);
  directoryWatch.close();
});

it("is at risk while the new file of a followed name cannot be opened, as after a rotation with a wrong mode", async () => {
  const real = createSourceFiles(createMounts(systemClock));
  const denied = Object.assign(new Error("permission denied"), { code: "EACCES", syscall: "open" });
  let isDenied = false;
  files.write(1, 2);
  await files.start(
    {},
    {
      ...real,
      open: (path, rules) =>
        isDenied && !path.endsWith(".1") ? Promise.reject(denied) : real.open(path, rules),
    },
  );
  await files.expectTexts(lines(1, 2));
  isDenied = true;
  files.write(1, 1, "never-followed.log");
  await settle();
  expect(files.source?.condition?.()).toBeUndefined();
  renameSync(files.log(), files.log("app.log.1"));
  files.write(3, 3);
  await eventually(() =>
    expect(files.source?.condition?.()).toMatchObject({
      code: "source_failed",
      reason: "file: permission denied",
      path: files.log(),
    }),
  );
  isDenied = false;
  files.skip(100_000);
  await files.expectTexts([...lines(1, 2), "line 1", "line 3"]);
});
