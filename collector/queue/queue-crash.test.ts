import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { countCpuMilliseconds } from "#tests/support/cpu-time.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll } from "#tests/support/queue.ts";

const writer = join(import.meta.dirname, "../../tests/slow/queue-crash/writer.ts");

/** Runs the writer, kills it with SIGKILL once it has printed `lines` lines, and returns them. */
const runAndKill = (dir: string, seed: number, lines: number): Promise<string[]> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [writer, dir, `${seed}`], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    let errors = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
      if (output.split("\n").length > lines) child.kill("SIGKILL");
    });
    child.stderr.on("data", (chunk) => {
      errors += chunk;
    });
    child.on("error", reject);
    child.on("close", (_, signal) => {
      // The kill may cut the last line off.
      if (signal === "SIGKILL") resolve(output.split("\n").slice(0, -1));
      else reject(new Error(`the writer exited: ${errors}`));
    });
  });

const read = (dir: string) => {
  const queue = openTestQueue(dir);
  const records = readAll(queue);
  const found = {
    lastSequence: queue.lastSequence,
    next: Number(queue.checkpoints("crash").get("next") ?? "0"),
    records,
    stats: queue.stats(),
  };
  return queue.close().then(() => found);
};

it("Q1: keeps every accepted record once, and uses no sequence twice, after kill -9 at random times", async () => {
  const seed = (Date.now() & 0xffff) + 1;
  console.log(`queue crash test: seed ${seed}`);
  const random = createSeededEntropy(seed);
  const dir = newFolder();
  let acked = 0;
  let lastSequence = 0;
  for (let round = 0; round < 12; round++) {
    const lines = await runAndKill(dir, seed + round, 1 + ((random.bytes(1)[0] ?? 0) % 60));
    let promised = 0;
    let promisedSequence = 0;
    for (const line of lines) {
      const [what, first, second] = line.split(" ");
      if (what === "open") expect(Number(first)).toBe(lastSequence);
      if (what === "stored") {
        promised = Number(first);
        promisedSequence = Number(second);
      }
      if (what === "acking") acked = Math.max(acked, Number(first));
    }
    const counted = countCpuMilliseconds();
    const found = await read(dir);
    expect(counted(), "Q1: opens in under 2 s").toBeLessThan(2000);
    expect(found.next).toBeGreaterThanOrEqual(promised);
    expect(found.lastSequence).toBeGreaterThanOrEqual(Math.max(promisedSequence, lastSequence));
    // One record for each number from 0 on, so the number follows from the sequence.
    expect(found.next).toBe(found.lastSequence);
    for (const { sequence, attributes } of found.records)
      expect(Number(attributes.number)).toBe(sequence - 1);
    const missing = new Set(
      Array.from({ length: found.lastSequence - acked }, (_, index) => acked + 1 + index),
    );
    for (const { sequence } of found.records) missing.delete(sequence);
    expect([...missing]).toEqual([]);
    expect(found.stats.records).toBe(found.records.length);
    expect(found.stats.bytes).toBe(found.records.reduce((sum, { bytes }) => sum + bytes, 0));
    lastSequence = found.lastSequence;
  }
  expect(lastSequence).toBeGreaterThan(0);
});
