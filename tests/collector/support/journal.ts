import { appendFileSync, chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Queue } from "#collector/queue/queue.ts";
import type { JournaldConfig } from "#collector/sources/journald/journal-record.ts";
import { createJournaldSource } from "#collector/sources/journald/journald-source.ts";
import type { Source } from "#collector/sources/source.ts";
import { type Clock, systemClock } from "#kit/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder, whenDone } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll, textsOf } from "#tests/support/queue.ts";

const standIn = fileURLToPath(new URL("./stand-in-journalctl.ts", import.meta.url));

/** Returns the cursor of the entry with a number. */
export const cursorOf = (number: number, { line = "a1", boot = "b1" } = {}) =>
  `s=${line};i=${number.toString(16)};b=${boot};m=${number.toString(16)};t=${(1_790_000_000_000_000 + number * 1_000).toString(16)};x=${number}`;

/** Returns an entry in the export format, with its own fields before the message. */
export const exported = (number: number, fields: Readonly<Record<string, string>> = {}) =>
  `${Object.entries({ __CURSOR: cursorOf(number), ...fields, MESSAGE: `line ${number}` })
    .map(([name, value]) => `${name}=${value}\n`)
    .join("")}\n`;

/** Creates a journal, which a stand-in for `journalctl` reads, and a source over it that appends to a real queue, its own unless given. */
export const createTestJournal = (given?: Queue) => {
  const dir = newFolder();
  const file = (name: string) => join(dir, name);
  const program = file("journalctl");
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${standIn}" "$@"\n`);
  chmodSync(program, 0o755);
  writeFileSync(file("journal"), "");
  const logged = createTestLog();
  let skippedMs = 0;
  /** The system clock, a hundred times as fast, and able to skip. */
  const clock: Clock = {
    ...systemClock,
    monotonic: () => systemClock.monotonic() * 100 + skippedMs,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 100, signal),
  };
  let queue = given ?? openTestQueue(file("queue"));
  let append: Queue["append"] = queue.append;
  let source: Source | undefined;

  const start = async (config: Partial<JournaldConfig> = {}, retries = true) => {
    source = createJournaldSource(
      {
        units: [],
        identifiers: [],
        priority: "debug",
        startAt: "beginning",
        directory: dir,
        namespace: undefined,
        ...config,
      },
      {
        append: (...call) => append(...call),
        refused: (...call) => queue.accounts.refused(...call),
        checkpoints: (...call) => queue.checkpoints(...call),
        clock,
        log: logged,
        program,
      },
    );
    await source.start({ retries });
    return source;
  };
  const stop = async () => source?.stop();
  const records = () => readAll(queue);
  whenDone(async () => {
    await stop();
    if (given === undefined) await queue.close();
  });
  return {
    file,
    logged,
    start,
    stop,
    records,
    get queue() {
      return queue;
    },
    skip: (ms: number) => {
      skippedMs += ms;
    },
    /** Stops as a crash does: the source stores nothing more. */
    crash: async () => {
      append = () => Promise.reject(new Error("crashed"));
      await stop().catch(() => undefined);
      await queue.close();
      queue = openTestQueue(file("queue"));
      append = queue.append;
    },
    /** Replaces `append`. */
    storeBy: (other: Queue["append"]) => {
      append = other;
    },
    /** Replaces the pauses between two runs. */
    pauseBy: (sleep: Clock["sleep"]) => {
      clock.sleep = sleep;
    },
    /** Adds entries with these numbers. */
    write: (from: number, to: number, fields: Readonly<Record<string, string>> = {}) => {
      for (let number = from; number <= to; number++)
        appendFileSync(file("journal"), exported(number, fields));
    },
    /** Deletes all entries; those that are written later have their own numbers. */
    vacuum: () => writeFileSync(file("journal"), ""),
    /** Returns the options of each run; a file that is empty has none yet. */
    runs: () => readFileSync(file("runs"), "utf8").match(/.+/g) ?? [],
    /** Returns the process id of the last run. */
    pid: () => Number(readFileSync(file("pid"), "utf8")),
    texts: () => textsOf(records()),
  };
};
