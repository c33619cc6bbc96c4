import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createDirectories } from "./directories.ts";
import { createFileOpener } from "./file-opener.ts";
import { createNeighbours } from "./neighbours.ts";
import type { FileStat } from "./source-files.ts";

const clock = createTestClock();

/** A directory of generations, each known by its inode. `onStat` is called before a name is looked at. */
const createRotating = (onStat: (name: string) => void) => {
  let names = new Map<string, number>();
  let mtimeMs = clock.now();
  const statOf = (ino: number, isDirectory: boolean): FileStat => ({
    dev: 1,
    ino,
    size: 10,
    mtimeMs,
    links: 1,
    isFile: !isDirectory,
    isDirectory,
  });
  const files = {
    list: async () => [...names.keys()].reverse().map((name) => ({ name, kind: "file" as const })),
    stat: async (path: string) => {
      if (path === "/logs") return statOf(1, true);
      onStat(path);
      const ino = names.get(path.slice("/logs/".length));
      return ino === undefined ? null : statOf(ino, false);
    },
  };
  const opened = new Set<number>();
  const opener = createFileOpener(
    { source: "file", rules: {} as never },
    {
      log: createTestLog(),
      files: {
        open: async (path) => {
          const stat = await files.stat(path);
          if (stat !== null) opened.add(stat.ino);
          return stat && ({ path, realPath: path, stat, close: async () => undefined } as never);
        },
      },
    },
    () => true,
  );
  const directories = createDirectories(files as never, clock);
  const neighbours = createNeighbours({
    files: files as never,
    directories,
    opener,
    clock,
    isFollowed: () => false,
  });
  return {
    opened,
    neighbours,
    set: (...inodes: number[]) => {
      names = new Map(inodes.map((ino, at) => [at === 0 ? "app.log" : `app.log.${at}`, ino]));
      mtimeMs += 1_000;
    },
    pass: async () => {
      directories.beginPass(true);
      opener.beginPass();
      neighbours.beginPass([]);
      await neighbours.lookBeside([{ path: "/logs/app.log", realPath: "/logs/app.log" }], {
        mustLook: () => false,
        isOfNewPattern: () => false,
      });
      neighbours.endPass();
    },
  };
};

it("F1: sees a generation that a rotation moves while the pass opens the others", async () => {
  let rotations = 0;
  const rotating = createRotating((path) => {
    // The older one is opened, and the newer one takes its name.
    if (path.endsWith(".1") && rotations++ === 0) rotating.set(4, 3, 2, 1);
  });
  rotating.set(3, 2, 1);
  await rotating.pass();
  expect([...rotating.opened].sort()).toEqual([1, 2, 3]);
  expect(rotating.neighbours.hasUnopened()).toBe(false);
});

it("F1: knows after 5 seconds in which names moved under each look that generations may be gone", async () => {
  let next = 10;
  let moves = true;
  const rotating = createRotating((path) => {
    if (path.endsWith(".1") && moves) rotating.set(next + 1, next++, 1);
  });
  rotating.set(3, 2, 1);
  await rotating.pass();
  expect(rotating.neighbours.hasUnopened()).toBe(true);
  moves = false;
  await rotating.pass();
  expect(rotating.neighbours.hasUnopened()).toBe(false);
  moves = true;
  rotating.set(next + 1, next, 1);
  await clock.advance(4_000);
  await rotating.pass();
  expect(rotating.neighbours.wasBlind("/logs")).toBe(false);
  await clock.advance(2_000);
  await rotating.pass();
  expect(rotating.neighbours.wasBlind("/logs")).toBe(true);
});
