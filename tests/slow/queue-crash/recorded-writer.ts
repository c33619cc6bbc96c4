import { mkdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { openTestQueue } from "#tests/support/queue.ts";
import { numberedRecord } from "./numbered-record.ts";

// The program that the power-cut model records: for each seed, in a directory of its own, a queue that is filled, acknowledged, closed
// and opened again. Reports on stdout what the queue guaranteed, as soon as it did.
const [root = "", first = "0", count = "1"] = process.argv.slice(2);
const report = (text: string) => void writeSync(1, `${text}\n`);

/** Retries an operation that failed because of the disk. */
const retry = async <Result>(attempt: () => Result | Promise<Result>) => {
  for (let left = 20; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (left === 0) throw error;
    }
  }
};

const runSeed = async (dir: string, seed: number) => {
  const random = createSeededEntropy(seed);
  const byte = () => random.bytes(1)[0] ?? 0;
  mkdirSync(dir);
  let queue = await retry(() => openTestQueue(dir));
  report(`open ${dir}`);
  let next = 0;
  for (let step = 0; step < 8; step++) {
    const from = next;
    next += 1 + (byte() % 6);
    const records = Array.from({ length: next - from }, (_, index) => numberedRecord(from + index));
    const checkpoints = [{ source: "crash", key: "next", value: `${next}` }];
    await retry(() => queue.append(records, { checkpoints }));
    report(`stored ${next}`);
    const dice = byte() % 8;
    if (dice < 3) {
      const through = queue.lastSequence - (byte() % 8);
      report(`acking ${through}`);
      await retry(() => queue.ack(through));
    } else if (dice === 3) {
      await queue.close();
      queue = await retry(() => openTestQueue(dir));
    }
  }
  await queue.close();
};

for (let seed = Number(first); seed < Number(first) + Number(count); seed++)
  await runSeed(join(root, `${seed}`), seed);
