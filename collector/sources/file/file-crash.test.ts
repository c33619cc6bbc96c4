import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { expect, it } from "vitest";
import { lines } from "#tests/collector/support/file-source.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll, textsOf } from "#tests/support/queue.ts";

const tailer = join(import.meta.dirname, "../../../tests/slow/queue-crash/tailer.ts");

/** Resolves when the tailer reports that it stored `count` lines. */
const reaches = async (said: Readable, count: number) => {
  for await (const line of createInterface({ input: said })) if (Number(line) >= count) return;
  throw new Error("the tailer ended by itself");
};

it("Q1: neither loses nor repeats a line when it is killed with kill -9 while it reads, over rotations", async () => {
  const dir = newFolder();
  const log = join(dir, "app.log");
  const perRound = 12_000;
  const rounds = 3;
  for (let round = 0; round < rounds; round++) {
    const from = round * perRound;
    appendFileSync(log, `${lines(from + 1, from + perRound).join("\n")}\n`);
    const child = spawn(process.execPath, [tailer, dir], { stdio: ["ignore", "pipe", "inherit"] });
    // While it reads, except for the last round.
    await reaches(child.stdout, round === rounds - 1 ? rounds * perRound : from + perRound / 4);
    if (round === 1) renameSync(log, join(dir, "app.log.1"));
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  const queue = openTestQueue(join(dir, "queue"));
  const texts = textsOf(readAll(queue));
  await queue.close();
  expect(texts).toHaveLength(rounds * perRound);
  expect(new Set(texts)).toEqual(new Set(lines(1, rounds * perRound)));
});
