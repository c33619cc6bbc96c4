import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createDirectories } from "./directories.ts";
import { createPause, createReaders, type Followed, followedFile } from "./readers.ts";
import type { FileStat } from "./source-files.ts";
import type { Tail } from "./tail.ts";

it("looks at a watched directory every 4 s or for a decision, and at another one in each pass", async () => {
  const clock = createTestClock();
  const looks: string[] = [];
  const stat = async (path: string) => {
    looks.push(path);
    return { dev: 1, ino: 1, mtimeMs: 0, isDirectory: true } as FileStat;
  };
  const since = new Map([["/watched", clock.monotonic()]]);
  const directories = createDirectories({ stat, list: async () => [] }, clock, {
    since: (path) => since.get(path),
  });
  const pass = async (looksAtAll = false) => {
    await clock.advance(1_000);
    directories.beginPass(looksAtAll);
    for (const path of ["/watched", "/other"]) await directories.list(path);
    return looks.splice(0).length;
  };
  const passes: number[] = [];
  for (let count = 0; count < 6; count++) passes.push(await pass());
  expect(passes).toEqual([2, 1, 1, 1, 2, 1]);
  expect(await pass(true)).toBe(2);
  since.clear();
  expect(await pass()).toBe(2);
});

it("polls 5,000 idle files at most 1,000 times a second, and those of a directory at once when it changes", async () => {
  const clock = createTestClock();
  const stopping = new AbortController();
  const { signal } = stopping;
  let polls = 0;
  const followed = new Map<string, Followed>();
  for (let file = 0; file < 5_000; file++) {
    const tail = {
      key: `1:${file}`,
      path: `/logs/${file % 100}/${file}.log`,
      file: {
        realPath: `/logs/${file % 100}/${file}.log`,
        mount: { mountpoint: "/", type: "nfs" },
      },
      isExhausted: true,
      size: 0,
      position: { offset: 0 },
    } as unknown as Tail;
    followed.set(tail.key, followedFile(tail, "live"));
  }
  const readers = createReaders(followed, {
    clock,
    signal,
    watch: { reports: () => false, since: () => undefined, wrote: () => undefined } as never,
    step: async () => {
      polls += 1;
      return false;
    },
    mayRead: () => true,
    isFound: () => true,
    finish: async () => undefined,
    report: () => expect.fail("nothing fails"),
    fault: { succeeded: () => undefined },
  });
  for (const { tail } of followed.values()) readers.begin(tail);
  for (let second = 0; second < 30; second++) await clock.advance(1_000);
  polls = 0;
  for (let second = 0; second < 10; second++) await clock.advance(1_000);
  expect(polls).toBeGreaterThan(8_000);
  expect(polls).toBeLessThanOrEqual(10_000);
  polls = 0;
  readers.poll("/logs/7");
  await clock.advance(0);
  expect(polls).toBeGreaterThanOrEqual(50);
  expect(polls).toBeLessThan(100);
  stopping.abort();
  await readers.ended();
});

it("ends a wait, also one that begins later", async () => {
  const clock = createTestClock();
  const stopping = new AbortController();
  const pause = createPause(clock, stopping.signal);
  const ended: number[] = [];
  const wait = (id: number) => pause.wait(1_000).then(() => ended.push(id));
  const first = wait(1);
  pause.end();
  await first;
  pause.end();
  await wait(2);
  const third = wait(3);
  await clock.advance(999);
  expect(ended).toEqual([1, 2]);
  stopping.abort(new Error("stopping"));
  await expect(third).rejects.toThrow("stopping");
});
