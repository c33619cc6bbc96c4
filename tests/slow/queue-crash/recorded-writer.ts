import { mkdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createSeededEntropy } from "../../fakes/entropy.ts";
import { openTestQueue } from "../../queue.ts";
import { numberedRecord } from "./numbered-record.ts";

// What the power-cut model records: for each seed, in a directory of its own, a queue that is filled, acknowledged, set aside from,
// closed and opened again. Says on stdout what it was promised, at the moment it was.
const [root = "", first = "0", count = "1"] = process.argv.slice(2);
const say = (text: string) => void writeSync(1, `${text}\n`);

/** A disk that fails now and then is asked again. */
const insist = async <Result>(attempt: () => Result | Promise<Result>): Promise<Result> => {
  for (let left = 20; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (left === 0) throw error;
    }
  }
};

const live = async (dir: string, seed: number): Promise<void> => {
  const random = createSeededEntropy(seed);
  const byte = () => random.bytes(1)[0] ?? 0;
  mkdirSync(dir);
  let queue = await insist(() => openTestQueue(dir));
  say(`open ${dir}`);
  let next = 0;
  for (let step = 0; step < 8; step++) {
    const from = next;
    next += 1 + (byte() % 6);
    const records = Array.from({ length: next - from }, (_, index) => numberedRecord(from + index));
    const checkpoints = [{ source: "crash", key: "next", value: `${next}` }];
    await insist(() => queue.append(records, { checkpoints }));
    say(`stored ${next}`);
    const dice = byte() % 8;
    if (dice < 3) {
      const through = queue.lastSequence - (byte() % 8);
      say(`acking ${through}`);
      await insist(() => queue.ack(through));
    } else if (dice === 3) {
      await queue.close();
      queue = await insist(() => openTestQueue(dir));
    }
  }
  await queue.close();
};

for (let seed = Number(first); seed < Number(first) + Number(count); seed++) await live(join(root, `${seed}`), seed);
