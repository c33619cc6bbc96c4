import { expect, it } from "vitest";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createSeededEntropy } from "../../tests/fakes/entropy.ts";
import { createDisk, openDiskStore } from "../../tests/simulation/disk.ts";
import { testRecord } from "../../tests/support/queue.ts";
import { createQueue } from "./create-queue.ts";

it("Q3: deletes what core has acknowledged once a full disk has room, without another ack", async () => {
  const [clock, entropy, disk] = [createTestClock(), createSeededEntropy(1), createDisk()];
  const limits = {
    maxDiskUsageBytes: 100_000,
    maxRecordAgeSeconds: 60,
    atRiskBytesPercent: 80,
    atRiskOldestSeconds: 60,
  };
  const queue = createQueue(
    { ...limits, dropNewestOnFull: false, clock, entropy },
    { openStore: (now) => openDiskStore(disk, { entropy, now }), onClosed: () => undefined },
  );
  await queue.append([testRecord("sent")]);
  disk.failure = "full";
  await expect(queue.ack(1)).rejects.toThrow(/full/);
  await clock.advance(5_000);
  expect(queue.stats().records).toBe(1);
  disk.failure = undefined;
  await clock.advance(1_000);
  expect([queue.stats().records, queue.stats().droppedRecordsTotal]).toEqual([0, 0]);
  await queue.close();
});
