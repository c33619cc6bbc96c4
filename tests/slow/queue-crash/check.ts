import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Queue } from "../../../collector/queue/queue.ts";
import { countCpuMilliseconds } from "../../cpu-time.ts";
import { createSeededEntropy } from "../../fakes/entropy.ts";
import { openTestQueue, readAll } from "../../queue.ts";
import { createDisk } from "./disk.ts";
import { numberedRecord } from "./numbered-record.ts";
import type { Step } from "./recording.ts";

/** How one life of a queue is cut: after so many steps, by a kill or by a power cut that keeps `kept` of 256 unsynced blocks. */
export interface Cut {
  steps: number;
  by: "kill" | "power";
  kept: number;
}

/** A promise that a queue broke. */
export interface Violation extends Cut {
  seed: number;
  what: string;
}

/** Of CPU time: what else the machine does is not the queue's fault. */
const opensWithinMs = 2_000;

/** Cuts a recorded life at `cuts` places, or at every place, and gives the promises that did not hold when the queue came back. */
export const checkLife = async (seed: number, steps: readonly Step[], cuts: number | "all"): Promise<Violation[]> => {
  const violations: Violation[] = [];
  for (const cut of cutsOf(seed, steps.length, cuts)) {
    const what = await checkCut(seed, steps, cut);
    if (what !== null) violations.push({ seed, ...cut, what });
  }
  return violations;
};

const cutsOf = (seed: number, length: number, cuts: number | "all"): Cut[] => {
  const random = createSeededEntropy(seed ^ 0x5eed);
  const number = (below: number) => {
    const [high = 0, low = 0] = random.bytes(2);
    return (high * 256 + low) % below;
  };
  const places =
    cuts === "all"
      ? Array.from({ length }, (_, index) => index + 1)
      : Array.from({ length: cuts }, () => 1 + number(length));
  return places.flatMap((place) => [
    { steps: place, by: "kill" as const, kept: 256 },
    { steps: place, by: "power" as const, kept: [0, 0, 32, 128, 224, 256][number(6)] ?? 0 },
  ]);
};

const checkCut = async (seed: number, steps: readonly Step[], cut: Cut): Promise<string | null> => {
  const disk = createDisk();
  const promised = { stored: 0, acked: 0 };
  for (const step of steps.slice(0, cut.steps)) {
    disk.apply(step);
    if (step.does !== "say") continue;
    const [word, number] = step.text.split(" ");
    if (word === "stored") promised.stored = Number(number);
    if (word === "acking") promised.acked = Math.max(promised.acked, Number(number));
  }
  const random = createSeededEntropy(seed * 65_537 + cut.steps);
  const files = cut.by === "kill" ? disk.afterKill() : disk.afterPowerCut(() => (random.bytes(1)[0] ?? 0) < cut.kept);
  const dir = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "queue-crash-"));
  try {
    // The index of the write-ahead log is never synced, nor read after a crash.
    for (const [path, bytes] of files)
      if (!path.endsWith("-shm")) writeFileSync(join(dir, basename(path)), bytes, { mode: 0o600 });
    return await faultOf(dir, promised);
  } finally {
    rmSync(dir, { recursive: true });
  }
};

const faultOf = async (dir: string, promised: { stored: number; acked: number }): Promise<string | null> => {
  const counted = countCpuMilliseconds();
  let queue: Queue;
  try {
    queue = openTestQueue(dir);
  } catch (error) {
    return `it does not open: ${error instanceof Error ? error.message : "no error"}`;
  }
  try {
    if (counted() > opensWithinMs) return "it took more than two seconds to open";
    const last = queue.lastSequence;
    if (last < promised.stored) return `${promised.stored} records were accepted, and the queue knows of ${last}`;
    if (Number(queue.checkpoints("crash").get("next") ?? 0) !== last)
      return "the checkpoint is not that of the records";
    const records = readAll(queue);
    const found = new Set<number>();
    for (const { sequence, attributes, payload } of records) {
      const { payload: expected } = numberedRecord(sequence - 1);
      if (attributes.number !== `${sequence - 1}` || Buffer.compare(payload, expected) !== 0) return "a record is torn";
      found.add(sequence);
    }
    for (let sequence = promised.acked + 1; sequence <= promised.stored; sequence++)
      if (!found.has(sequence)) return "an accepted record is gone";
    const { records: count, bytes, quarantined } = queue.stats();
    if (quarantined > 0) return "it was taken for damaged";
    if (count !== records.length || bytes !== records.reduce((sum, record) => sum + record.bytes, 0))
      return "the figures are not those of the records";
    await queue.append([numberedRecord(last)]);
    return queue.lastSequence === last + 1 ? null : "the next sequence is not the next";
  } finally {
    await queue.close();
  }
};
