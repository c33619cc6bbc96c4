import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Queue } from "#collector/queue/queue.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { countCpuMilliseconds } from "#tests/support/cpu-time.ts";
import { openTestQueue, readAll } from "#tests/support/queue.ts";
import { createDisk } from "./disk.ts";
import { numberedRecord } from "./numbered-record.ts";
import type { Step } from "./recording.ts";

/** How a run of a queue ends: after `steps`, by a kill or by a power cut that keeps `kept` of 256 unsynced blocks. */
export interface Cut {
  steps: number;
  by: "kill" | "power";
  kept: number;
}

/** A guarantee that a queue broke. */
export interface Violation extends Cut {
  seed: number;
  what: string;
}

/** CPU time, which does not depend on the load of the machine. */
const opensWithinMs = 2_000;

/** Ends a recorded run after `cuts` random steps, or after each; returns the guarantees that did not hold when the queue was reopened. */
export const checkRun = async (seed: number, steps: readonly Step[], cuts: number | "all") => {
  const violations: Violation[] = [];
  for (const cut of cutsOf(seed, steps.length, cuts)) {
    const what = await checkCut(seed, steps, cut);
    if (what !== null) violations.push({ seed, ...cut, what });
  }
  return violations;
};

const cutsOf = (seed: number, length: number, cuts: number | "all") => {
  const random = createSeededEntropy(seed ^ 0x5eed);
  const number = (below: number) => {
    const [high = 0, low = 0] = random.bytes(2);
    return (high * 256 + low) % below;
  };
  const ends =
    cuts === "all"
      ? Array.from({ length }, (_, index) => index + 1)
      : Array.from({ length: cuts }, () => 1 + number(length));
  return ends.flatMap((steps) => [
    { steps, by: "kill" as const, kept: 256 },
    { steps, by: "power" as const, kept: [0, 0, 32, 128, 224, 256][number(6)] ?? 0 },
  ]);
};

const checkCut = async (seed: number, steps: readonly Step[], cut: Cut) => {
  const disk = createDisk();
  const reported = { stored: 0, acked: 0 };
  for (const step of steps.slice(0, cut.steps)) {
    disk.apply(step);
    if (step.does !== "report") continue;
    const [word, number] = step.text.split(" ");
    if (word === "stored") reported.stored = Number(number);
    if (word === "acking") reported.acked = Math.max(reported.acked, Number(number));
  }
  const random = createSeededEntropy(seed * 65_537 + cut.steps);
  const files =
    cut.by === "kill"
      ? disk.afterKill()
      : disk.afterPowerCut(() => (random.bytes(1)[0] ?? 0) < cut.kept);
  const dir = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "queue-crash-"));
  try {
    // The index of the write-ahead log is never synced, and not read after a crash.
    for (const [path, bytes] of files)
      if (!path.endsWith("-shm")) writeFileSync(join(dir, basename(path)), bytes, { mode: 0o600 });
    return await faultOf(dir, reported);
  } finally {
    rmSync(dir, { recursive: true });
  }
};

const faultOf = async (dir: string, reported: { stored: number; acked: number }) => {
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
    if (last < reported.stored)
      return `${reported.stored} records were accepted, and the queue has ${last}`;
    if (Number(queue.checkpoints("crash").get("next") ?? 0) !== last)
      return "the checkpoint does not match the records";
    const records = readAll(queue);
    const found = new Set<number>();
    for (const { sequence, attributes, payload } of records) {
      const { payload: expected } = numberedRecord(sequence - 1);
      if (attributes.number !== `${sequence - 1}` || Buffer.compare(payload, expected) !== 0)
        return "a record is torn";
      found.add(sequence);
    }
    for (let sequence = reported.acked + 1; sequence <= reported.stored; sequence++)
      if (!found.has(sequence)) return "an accepted record is lost";
    const { records: count, bytes, quarantined, lostRecords } = queue.stats();
    if (quarantined > 0) return "it was quarantined";
    if (lostRecords > 0) return "it reports a loss that is none";
    if (
      count !== records.length ||
      bytes !== records.reduce((sum, record) => sum + record.bytes, 0)
    )
      return "the figures do not match the records";
    await queue.append([numberedRecord(last)]);
    return queue.lastSequence === last + 1 ? null : "the next sequence does not follow the last";
  } finally {
    await queue.close();
  }
};
