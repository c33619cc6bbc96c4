import { readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fetchStatus } from "#collector/status/fetch-status.ts";
import { systemClock } from "#kit/clock.ts";
import type { Rotation } from "./collector-load.ts";
import { type Fault, seconds } from "./fault.ts";

const startedMs = 30_000;
const closedPort = 1;

/** Cuts the collector off, so that its queue grows, kills it, damages the WAL of its queue and starts it again. */
const damaging =
  (damage: (wal: string) => void): Fault["inject"] =>
  async ({ collector, collectorDir, link, balance }, draw) => {
    link.target(closedPort);
    link.reset();
    try {
      await systemClock.sleep(seconds(draw, 0.5, 3));
      await collector.end();
      damage(join(collectorDir, "queue.db-wal"));
    } finally {
      link.target(balance);
      await collector.start();
    }
    const { queue } = await untilStarted(collectorDir, collector.pid());
    if (queue.dropped_records_total > 0 && !queue.at_risk)
      throw new Error("records are lost, and the queue is not at risk");
  };

const untilStarted = async (dir: string, pid: number) => {
  const deadline = performance.now() + startedMs;
  for (;;) {
    const status = await fetchStatus(dir).catch(() => undefined);
    if (status?.pid === pid) return status;
    if (performance.now() > deadline)
      throw new Error("the collector does not start on a damaged queue");
    await systemClock.sleep(50);
  }
};

const damaged = { id: "K5", touches: ["collector"], recoveryMs: { max: 5_000 } } as const;

/** Rotates the collected log up to four times within a second. */
const rotating = (how: Rotation): Fault => ({
  id: "K7",
  touches: ["log"],
  recoveryMs: { max: 5_000 },
  pause: { of: "each", msMax: 5_000 },
  async inject({ rotate }, draw) {
    for (let times = 0; times <= draw * 4; times++) {
      rotate(how);
      await systemClock.sleep(seconds(draw, 0.1, 0.3));
    }
  },
});

/** Faults of a collector's files. */
export const fileFaults = {
  "flip a bit in a queue's WAL": {
    ...damaged,
    inject: damaging((wal) => {
      const bytes = readFileSync(wal);
      const middle = bytes.length >> 1;
      bytes[middle] = (bytes[middle] ?? 0) ^ 0x10;
      writeFileSync(wal, bytes);
    }),
  },
  "halve a queue's WAL": {
    ...damaged,
    inject: damaging((wal) => truncateSync(wal, statSync(wal).size >> 1)),
  },
  "remove a queue's WAL": { ...damaged, inject: damaging((wal) => rmSync(wal)) },
  "rotate a log by rename": rotating("rename"),
  "rotate a log by rename, and compress it": rotating("gzip"),
  "rotate a log by copy and truncate": rotating("copytruncate"),
};
