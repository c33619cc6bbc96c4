import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect } from "vitest";
import { createMounts } from "#collector/files/mounts.ts";
import type { Queue, QueueOptions } from "#collector/queue/queue.ts";
import type { FileSourceConfig } from "#collector/sources/file/discovery.ts";
import { createFileSource } from "#collector/sources/file/file-source.ts";
import { createSourceFiles } from "#collector/sources/file/source-files.ts";
import type { Source } from "#collector/sources/source.ts";
import { systemClock } from "#kit/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { eventually } from "#tests/support/eventually.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll, textsOf } from "#tests/support/queue.ts";

const sourceFiles = createSourceFiles(createMounts(systemClock));

/** Creates a temporary directory with `logs`, and a `file` source over it that appends to a real queue: its own, unless one is given. */
export const createTestFiles = (given?: Queue) => {
  const dir = newFolder();
  mkdirSync(join(dir, "logs"));
  const logged = createTestLog();
  let skippedMs = 0;
  /** The system clock, fifty times as fast, and able to skip. */
  const clock = {
    ...systemClock,
    monotonic: () => systemClock.monotonic() * 50 + skippedMs,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 50, signal),
  };
  let queue: Queue;
  let append: Queue["append"];
  let source: Source | undefined;

  const open = (options: Partial<QueueOptions> = {}) => {
    queue = given ?? openTestQueue(join(dir, "queue"), options);
    append = queue.append;
  };
  const start = async (config: Partial<FileSourceConfig> = {}, from = sourceFiles) => {
    source = createFileSource(
      {
        include: [join(dir, "logs/*.log")],
        exclude: [],
        startAt: "beginning",
        partialAfterMs: 3_600_000,
        rules: { neverRead: [] },
        ...config,
      },
      {
        append: (...call) => append(...call),
        refused: (...call) => queue.accounts.refused(...call),
        checkpoints: queue.checkpoints,
        files: from,
        clock,
        log: logged,
      },
    );
    await source.start();
  };
  open();
  const records = () => readAll(queue);
  const texts = () => textsOf(records());
  const log = (name = "app.log") => join(dir, "logs", name);
  const write = (from: number, to: number, name?: string) =>
    appendFileSync(
      log(name),
      lines(from, to)
        .map((line) => `${line}\n`)
        .join(""),
    );
  const expectTexts = (expected: string[]) => eventually(() => expect(texts()).toEqual(expected));
  const rename = (from: string, to: string) => renameSync(log(from), log(to));
  /** Gives each generation the next number, up to `kept`. */
  const shift = (kept = 9) => {
    rmSync(log(`app.log.${kept}`), { force: true });
    for (let old = kept - 1; old >= 1; old--)
      if (existsSync(log(`app.log.${old}`))) rename(`app.log.${old}`, `app.log.${old + 1}`);
  };
  return {
    dir,
    logged,
    get queue() {
      return queue;
    },
    get source() {
      return source;
    },
    start,
    /** Reopens the queue with other options. */
    reopen: async (options: Partial<QueueOptions>) => {
      await queue.close();
      open(options);
    },
    restart: async (
      config: Partial<FileSourceConfig> = {},
      meanwhile: () => void = () => undefined,
    ) => {
      await source?.stop();
      await queue.close();
      meanwhile();
      open();
      await start(config);
    },
    /** Replaces `append`. */
    storeBy: (other: Queue["append"]) => {
      append = other;
    },
    skip: (ms: number) => {
      skippedMs += ms;
    },
    log,
    records,
    texts,
    write,
    expectTexts,
    /** Waits until all lines up to `last` have arrived once, in any order. */
    expectLines: (last: number, from = 1) =>
      eventually(() => expect(inOrder(texts())).toEqual(lines(from, last))),
    /** Waits until so many records are stored. */
    expectCount: (count: number) => eventually(() => expect(queue.stats().records).toBe(count)),
    /** Starts with so many lines in the log, and waits until they are stored. */
    begin: async (last: number, ...options: Parameters<typeof start>) => {
      write(1, last);
      await start(...options);
      await expectTexts(lines(1, last));
    },
    rename,
    rotate: (kept?: number) => {
      shift(kept);
      rename("app.log", "app.log.1");
    },
    copyAndTruncate: () => {
      shift();
      copyFileSync(log(), log("app.log.1"));
      truncateSync(log());
    },
    gzip: (name: string) => {
      writeFileSync(log(`${name}.gz`), gzipSync(readFileSync(log(name))));
      unlinkSync(log(name));
    },
    end: async () => {
      await source?.stop();
      await queue.close();
    },
  };
};

/** Returns the texts of numbered lines. */
export const lines = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}`);

/** Sorts numbered lines. */
export const inOrder = (texts: readonly string[]) =>
  texts.toSorted((a, b) => Number(a.slice(5)) - Number(b.slice(5)));

/** Waits long enough for several polls and discoveries of the accelerated clock. */
export const settle = () => systemClock.sleep(80);
