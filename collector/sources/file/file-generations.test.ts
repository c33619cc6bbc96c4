import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createMounts, HungMountError } from "#collector/files/mounts.ts";
import { systemClock } from "#kit/clock.ts";
import { createTestFiles, inOrder, lines, settle } from "#tests/collector/support/file-source.ts";
import { eventually } from "#tests/support/eventually.ts";
import { readAll, textsOf } from "#tests/support/queue.ts";
import { createCompressedFile } from "./compressed-file.ts";
import { createSourceFiles } from "./source-files.ts";

let files: ReturnType<typeof createTestFiles>;

beforeEach(() => {
  files = createTestFiles();
});

afterEach(() => files.end());

const kept = 5;
const perRound = 3_000;
const writeRound = (round: number, from: number) =>
  files.write(from + round * perRound, from + (round + 1) * perRound - 1);
/** Acknowledges everything that is stored, until `check` accepts the lines that have arrived; returns them. */
const drain = async (check: (read: readonly string[]) => void) => {
  const read: string[] = [];
  let last = 0;
  await eventually(async () => {
    const found = readAll(files.queue, last);
    read.push(...textsOf(found));
    last = found.at(-1)?.sequence ?? last;
    await files.queue.ack(last);
    check(read);
  });
  return read;
};

it("F1: reads every generation that rotated away while the queue was full, also the deleted ones", async () => {
  await files.reopen({ maxDiskUsageBytes: 1_000_000 });
  files.write(1, 20_000);
  await files.start();
  await eventually(() => expect(files.queue.stats().records).toBeGreaterThan(1_000));
  for (let round = 0; round < 10; round++) {
    writeRound(round, 20_001);
    await settle();
    files.rotate(kept);
  }
  const total = 20_000 + 10 * perRound;
  const read = await drain((arrived) => expect(arrived.length).toBeGreaterThanOrEqual(total));
  expect(inOrder(read)).toEqual(lines(1, total));
  expect(files.queue.stats().fileGapBytes).toBe(0);
});

it("F2: reads what is kept of ten rotations during a stop, oldest first, and says that lines may be missing", async () => {
  await files.begin(10);
  await files.restart({}, () => {
    for (let round = 0; round < 10; round++) {
      writeRound(round, 11);
      files.rotate(kept);
    }
    files.write(40_000, 40_001);
  });
  const first = 11 + (10 - kept) * perRound;
  const expected = [...lines(1, 10), ...lines(first, 10 + 10 * perRound), ...lines(40_000, 40_001)];
  await files.expectCount(expected.length);
  expect(files.texts()).toEqual(expected);
  expect(files.queue.stats()).toMatchObject({ fileGaps: 1 });
});

it("F1: closes the oldest deleted files unread when they hold more than they may, and counts their bytes", async () => {
  await files.reopen({ maxDiskUsageBytes: 1_000_000 });
  files.write(1, 20_000);
  await files.start({ maxHeldMb: 0.3 });
  await eventually(() => expect(files.queue.stats().records).toBeGreaterThan(1_000));
  for (let round = 0; round < 5; round++) {
    writeRound(round, 20_001);
    const followed = () =>
      files.logged.lines.filter(({ message }) => message === "following a file");
    await eventually(() => expect(followed()).toHaveLength(round + 1));
    unlinkSync(files.log());
  }
  await eventually(() => expect(files.source?.counters?.().given_up).toBeGreaterThan(0));
  const bytesOf = (texts: readonly string[]) =>
    texts.reduce((sum, text) => sum + text.length + 1, 0);
  const written = bytesOf(lines(1, 20_000 + 5 * perRound));
  const read = await drain((arrived) =>
    expect(bytesOf(arrived) + files.queue.stats().fileGapBytes).toBe(written),
  );
  expect(bytesOf(read)).toBeLessThan(written);
});

it("F1: reads as much of a compressed generation as it may, and counts the rest as a gap", async () => {
  await files.begin(10);
  await files.source?.stop();
  files.rename("app.log", "app.log.1");
  files.write(11, 1_000);
  files.rename("app.log", "app.log.2");
  files.gzip("app.log.2");
  await files.start(
    {},
    {
      ...createSourceFiles(createMounts(systemClock)),
      packed: (file) => createCompressedFile(file, { bytesMax: 80, measuredBytes: 20 }),
    },
  );
  await files.expectLines(20);
  await eventually(() => expect(files.queue.stats()).toMatchObject({ fileGaps: 1 }));
});

it("F3: neither repeats nor skips a line when device and inode numbers change", async () => {
  files.write(1, 10);
  files.write(1, 10, "other.log");
  await files.start();
  await files.expectCount(20);
  await files.source?.stop();
  const saved = files.queue.checkpoints("file");
  const positions = [...saved].filter(([key]) => /^\d+:/.test(key));
  // As after a remount, and for one file as after a restore.
  await files.queue.append([], {
    checkpoints: positions.flatMap(([key, value], index) => [
      { source: "file", key, value: null },
      { source: "file", key: index === 0 ? `9${key}` : `9:${index}`, value },
    ]),
  });
  files.write(11, 12);
  await files.start();
  await files.expectCount(22);
  await settle();
  expect(files.queue.stats()).toMatchObject({ records: 22, fileGaps: 0 });
});

it("F5: files wait in turn for descriptors, the oldest first, and all are read", async () => {
  for (let file = 0; file < 12; file++) files.write(file + 1, file + 1, `m${file}.log`);
  await files.start({ maxHeldFiles: 3 });
  await files.expectLines(12);
  files.write(13, 13, "m0.log");
  await eventually(() => expect(files.texts()).toContain("line 13"));
  expect(files.source?.counters?.().files).toBeLessThanOrEqual(3);
});

it("F7: skips and counts the hole of NULs that a truncation leaves under a writer that keeps its offset", async () => {
  await files.begin(10);
  truncateSync(files.log());
  await settle();
  writeFileSync(files.log(), "line 11\n", { flag: "r+" });
  truncateSync(files.log(), 0);
  appendFileSync(
    files.log(),
    Buffer.concat([Buffer.alloc(3_000_000), Buffer.from("line 11\nline 12\n")]),
  );
  await files.expectTexts(lines(1, 12));
  expect(files.source?.counters?.().nul_bytes).toBe(3_000_000);
});

it("F7: does not skip NULs behind which nothing is, since a writer may have reserved them", async () => {
  writeFileSync(files.log(), Buffer.concat([Buffer.from("line 1\n"), Buffer.alloc(600_000)]));
  await files.start();
  await files.expectTexts(lines(1, 1));
  await settle();
  files.skip(10_000);
  await settle();
  const writer = openSync(files.log(), "r+");
  for (let line = 2; line <= 9; line++) writeSync(writer, `line ${line}\n`, 7 * (line - 1));
  closeSync(writer);
  await files.expectTexts(lines(1, 9));
  expect(files.source?.counters?.().nul_bytes).toBe(0);
});

it("F6: stores a last line without its end after a while, marked as one that may go on", async () => {
  writeFileSync(files.log(), "line 1\npanic: ");
  await files.start({ partialAfterMs: 1_000 });
  await files.expectTexts(["line 1", "panic: "]);
  appendFileSync(files.log(), "no memory\nline 2\n");
  await files.expectTexts(["line 1", "panic: ", "no memory", "line 2"]);
  expect(files.records().map(({ attributes }) => attributes["file.partial"])).toEqual([
    undefined,
    "true",
    undefined,
    undefined,
  ]);
});

it("F5: leaves descriptors for everything else when the process has few of them", async () => {
  for (let file = 0; file < 12; file++) files.write(file + 1, file + 1, `m${file}.log`);
  await files.start({}, createSourceFiles(createMounts(systemClock), 4));
  await files.expectLines(12);
  expect(files.source?.counters?.().files).toBeLessThanOrEqual(4);
});

/** The file system, in which `list` fails for directories with an error. */
const failingFor = (failing: ReadonlyMap<string, Error>) => {
  const real = createSourceFiles(createMounts(systemClock));
  return {
    ...real,
    list: (path: string) =>
      failing.has(path) ? Promise.reject(failing.get(path)) : real.list(path),
  };
};

it("passes over a directory that it may not read, and follows what is beside it", async () => {
  const denied = Object.assign(new Error("permission denied"), { code: "EACCES" });
  mkdirSync(files.log("private"));
  files.write(1, 2);
  const include = [join(files.dir, "logs/**/*.log")];
  await files.start({ include }, failingFor(new Map([[files.log("private"), denied]])));
  await files.expectTexts(lines(1, 2));
});

it("F4: finds new files while the directory of followed ones does not answer", async () => {
  const failing = new Map<string, Error>();
  mkdirSync(files.log("hung"));
  writeFileSync(files.log("hung/app.log"), "line 1\n");
  await files.start(
    { include: [files.log("hung/*.log"), files.log("*.log")] },
    failingFor(failing),
  );
  await files.expectTexts(lines(1, 1));
  failing.set(files.log("hung"), new HungMountError({ mountpoint: files.dir, sinceMs: 0 }));
  // A pass that has begun before may still list it.
  await settle();
  writeFileSync(files.log("hung/other.log"), "line 3\n");
  files.write(2, 2);
  await files.expectTexts(lines(1, 2));
  failing.clear();
  await files.expectTexts(lines(1, 3));
});

it("reads every other file, at its pace, beside one that cannot be read, and that one once it can", async () => {
  let isBroken = true;
  const broken = Object.assign(new Error("input/output error"), { code: "EIO" });
  const real = createSourceFiles(createMounts(systemClock));
  const open: typeof real.open = async (path, rules) => {
    const file = await real.open(path, rules);
    if (file === null || !path.endsWith("broken.log")) return file;
    const read: typeof file.read = (...args) =>
      isBroken ? Promise.reject(broken) : file.read(...args);
    return { ...file, read };
  };
  files.write(1, 2, "broken.log");
  files.write(3, 20_000);
  await files.start({}, { ...real, open });
  await files.expectCount(19_998);
  files.write(20_001, 20_002, "later.log");
  await files.expectCount(20_000);
  await expect
    .poll(() => files.source?.warnings?.())
    .toMatchObject([{ code: "unreadable", path: files.log("broken.log") }]);
  isBroken = false;
  await files.expectCount(20_002);
  expect(inOrder(files.texts())).toEqual(lines(1, 20_002));
});
