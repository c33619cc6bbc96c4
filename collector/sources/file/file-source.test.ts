import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../functions/kit/clock.ts";
import { createTestLog } from "../../../tests/fakes/log.ts";
import { openTestQueue, readAll } from "../../../tests/queue.ts";
import type { Queue, QueueOptions } from "../../queue/queue.ts";
import type { Source } from "../source.ts";
import { createFileSource, type FileSourceConfig } from "./file-source.ts";

let dir: string;
let queue: Queue;
let source: Source | undefined;
let append: Queue["append"];

let skippedMs = 0;
/** Real time, fifty times as fast, and able to jump. */
const clock = {
  ...systemClock,
  monotonic: () => systemClock.monotonic() * 50 + skippedMs,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 50, signal),
};

const open = (options: Partial<QueueOptions> = {}) => {
  queue = openTestQueue(join(dir, "queue"), options);
  append = queue.append;
};

const start = async (config: Partial<FileSourceConfig> = {}) => {
  source = createFileSource(
    { include: [join(dir, "logs/*.log")], exclude: [], startAt: "beginning", ...config },
    { append: (...call) => append(...call), checkpoints: queue.checkpoints, clock, log: createTestLog() },
  );
  await source.start();
};

const restart = async (config: Partial<FileSourceConfig> = {}, meanwhile: () => void = () => undefined) => {
  await source?.stop();
  await queue.close();
  meanwhile();
  open();
  await start(config);
};

const log = (name = "app.log") => join(dir, "logs", name);
const records = () => readAll(queue);
const texts = () => records().map(({ payload }) => new TextDecoder().decode(payload));
const lines = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}`);
const write = (from: number, to: number, name?: string) =>
  appendFileSync(
    log(name),
    lines(from, to)
      .map((line) => `${line}\n`)
      .join(""),
  );
const expectTexts = (expected: string[]) =>
  vi.waitFor(() => expect(texts()).toEqual(expected), { timeout: 5_000, interval: 5 });
/** Long enough for several polls and discoveries of the accelerated clock. */
const settle = () => systemClock.sleep(80);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "file-source-"));
  mkdirSync(join(dir, "logs"));
  open();
});

afterEach(async () => {
  await source?.stop();
  source = undefined;
  await queue.close();
  rmSync(dir, { recursive: true });
});

describe("lines", () => {
  it("become one record each, with the file and the offset, as they are written", async () => {
    writeFileSync(log(), "one\r\n\nthree\n");
    await start();
    await expectTexts(["one", "", "three"]);
    appendFileSync(log(), "vierß\n");
    await expectTexts(["one", "", "three", "vierß"]);
    expect(records().map(({ kind, source: name, attributes }) => [kind, name, attributes])).toEqual(
      ["0", "5", "6", "12"].map((offset) => ["log_line", "file", { "file.path": log(), "file.offset": offset }]),
    );
  });

  it("wait for their end: half a line is not a record", async () => {
    writeFileSync(log(), "whole\nhal");
    await start();
    await expectTexts(["whole"]);
    await settle();
    appendFileSync(log(), "f");
    await settle();
    expect(texts()).toEqual(["whole"]);
    appendFileSync(log(), "\n");
    await expectTexts(["whole", "half"]);
  });

  it("of 1 MiB are taken whole, longer ones in pieces that say so", async () => {
    const mebibyte = 1024 * 1024;
    writeFileSync(log(), `a\n${"x".repeat(mebibyte)}\r\n${"y".repeat(mebibyte + 10)}\nz\n`);
    await start();
    await vi.waitFor(() => expect(records()).toHaveLength(5));
    expect(records().map(({ payload, attributes }) => [payload.length, attributes["file.partial"]])).toEqual([
      [1, undefined],
      [mebibyte, undefined],
      [mebibyte, "true"],
      [10, undefined],
      [1, undefined],
    ]);
  });

  it("in great number arrive once and in order", async () => {
    write(1, 20_000);
    await start();
    await vi.waitFor(() => expect(queue.stats().records).toBe(20_000), { timeout: 5_000 });
    expect(texts()).toEqual(lines(1, 20_000));
  });
});

describe("which files, and from where", () => {
  it("start_at end skips what was there at the first look, and nothing that comes later", async () => {
    write(1, 3);
    await start({ startAt: "end" });
    await settle();
    write(4, 5);
    await expectTexts(lines(4, 5));
    write(6, 7, "new.log");
    await expectTexts(lines(4, 7));
    await restart({ startAt: "end" }, () => {
      write(8, 9);
      write(10, 11, "another.log");
    });
    await vi.waitFor(() => expect(texts().toSorted()).toEqual(lines(4, 11).toSorted()));
  });

  it("leaves out what is excluded, what is no regular file, and a second name of the same file", async () => {
    mkdirSync(log("directory.log"));
    write(1, 2);
    write(3, 4, "secret.log");
    symlinkSync(log(), log("link.log"));
    await start({ exclude: [join(dir, "logs/secret*")] });
    await settle();
    expect(texts()).toEqual(lines(1, 2));
  });
});

describe("rotation", () => {
  it("by rename: the old file is read to its end, the new one from its beginning", async () => {
    write(1, 5);
    await start();
    await expectTexts(lines(1, 5));
    write(6, 8);
    renameSync(log(), log("app.log.1"));
    appendFileSync(log("app.log.1"), "line 9\n");
    write(10, 12);
    await vi.waitFor(() => expect(texts().toSorted()).toEqual(lines(1, 12).toSorted()));
    expect(new Set(records().map(({ attributes }) => attributes["file.path"]))).toEqual(new Set([log()]));
  });

  it("by copy and truncate: goes on in the emptied file", async () => {
    write(1, 5);
    await start();
    await expectTexts(lines(1, 5));
    copyFileSync(log(), log("app.log.1"));
    truncateSync(log());
    write(6, 7);
    await expectTexts(lines(1, 7));
  });

  it("by truncation is noticed even when the file has already grown past the old place", async () => {
    write(1, 5);
    await start();
    await expectTexts(lines(1, 5));
    writeFileSync(log(), `${lines(100, 150).join("\n")}\n`);
    await expectTexts([...lines(1, 5), ...lines(100, 150)]);
  });

  it("while the collector is down: the rest of the old file is found by its inode, and the new one is read whole", async () => {
    write(1, 5);
    await start({ startAt: "end" });
    write(6, 8);
    await expectTexts(lines(6, 8));
    await restart({ startAt: "end" }, () => {
      write(9, 10);
      renameSync(log(), log("app.log.1"));
      write(11, 12);
    });
    await vi.waitFor(() => expect(texts().toSorted()).toEqual(lines(6, 12).toSorted()));
  });

  it("to a deleted file: it is read to its end, its last line too, and then forgotten", async () => {
    write(1, 2);
    await start();
    await expectTexts(lines(1, 2));
    appendFileSync(log(), "line 3\nline 4");
    unlinkSync(log());
    await expectTexts(lines(1, 3));
    await settle();
    // The five minutes that a rotated file is kept open.
    skippedMs += 300_000;
    await expectTexts(lines(1, 4));
    await vi.waitFor(() => expect([...queue.checkpoints("file").keys()]).toEqual([expect.stringMatching(/^pattern:/)]));
  });
});

describe("restart", () => {
  it("goes on where the stored lines end", async () => {
    write(1, 1000);
    await start();
    await expectTexts(lines(1, 1000));
    await restart({}, () => write(1001, 1100));
    await expectTexts(lines(1, 1100));
  });

  it("reads a file that took over the inode of a followed one from its beginning", async () => {
    write(1, 3);
    await start();
    await expectTexts(lines(1, 3));
    // The same inode with other contents is what an inode used again looks like.
    await restart({}, () => writeFileSync(log(), "something else entirely, and longer than before\n"));
    await expectTexts([...lines(1, 3), "something else entirely, and longer than before"]);
  });

  it("survives a checkpoint that it cannot read", async () => {
    write(1, 3);
    await start();
    await expectTexts(lines(1, 3));
    const key = [...queue.checkpoints("file").keys()].find((candidate) => /^\d+:/.test(candidate)) ?? "";
    await source?.stop();
    await queue.append([], { checkpoints: [{ source: "file", key, value: "{" }] });
    await start();
    await expectTexts([...lines(1, 3), ...lines(1, 3)]);
  });
});

describe("a queue that", () => {
  it("is full pauses the reading, and loses and repeats nothing", async () => {
    await queue.close();
    open({ maxDiskUsageBytes: 1_000_000 });
    write(1, 20_000);
    await start();
    const read: string[] = [];
    let last = 0;
    await vi.waitFor(
      async () => {
        const found = queue.read(last, { maxRecords: 500, maxBytes: 1e9 });
        read.push(...found.map(({ payload }) => new TextDecoder().decode(payload)));
        last = found.at(-1)?.sequence ?? last;
        await queue.ack(last);
        expect(queue.stats().bytes).toBeLessThanOrEqual(1_000_000);
        expect(read).toHaveLength(20_000);
      },
      { timeout: 15_000, interval: 1 },
    );
    expect(read).toEqual(lines(1, 20_000));
  });

  it("fails to store is asked again, with the same lines", async () => {
    write(1, 10);
    let failures = 2;
    append = (...call) => (failures-- > 0 ? Promise.reject(new Error("disk I/O error")) : queue.append(...call));
    await expect(start()).rejects.toThrow("disk I/O error");
    await source?.stop();
    await start().catch(() => undefined);
    await source?.stop();
    failures = 0;
    await start();
    failures = 3;
    write(11, 20);
    await expectTexts(lines(1, 20));
  });
});

it("stops at once while it waits for the queue", async () => {
  await queue.close();
  open({ maxDiskUsageBytes: 1_000_000 });
  write(1, 20_000);
  await start();
  await vi.waitFor(() => expect(queue.stats().records).toBeGreaterThan(1000));
  await settle();
  const begun = performance.now();
  await source?.stop();
  expect(performance.now() - begun).toBeLessThan(200);
});
