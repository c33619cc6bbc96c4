import { expect, it } from "vitest";
import { rfc3339 } from "#kit/clock.ts";
import { closeAccounts, refusalsOf } from "#tests/collector/support/queue-accounts.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createDisk, openDiskStore } from "#tests/simulation/disk.ts";
import { withMembers } from "#tests/simulation/with-members.ts";
import { addTexts, testRecord } from "#tests/support/queue.ts";
import { createQueue } from "./queue.ts";

const openOnDisk = (
  disk = createDisk(),
  onStoreClosed: () => void = () => undefined,
  dropNewestOnFull = false,
) => {
  const clock = createTestClock();
  const entropy = createSeededEntropy(1);
  const limits = {
    maxDiskUsageBytes: 100_000,
    maxRecordAgeSeconds: 60,
    atRiskBytesPercent: 80,
    atRiskOldestSeconds: 60,
  };
  const queue = createQueue(
    { ...limits, dir: "/queue", dropNewestOnFull, clock, entropy },
    {
      openStore: (now) =>
        withMembers(openDiskStore(disk, { entropy, now }), { close: onStoreClosed }),
      onClosed: () => undefined,
    },
  );
  return { clock, disk, queue };
};

it("Q3: deletes what core has acknowledged once a full disk has room, without another ack", async () => {
  const { clock, disk, queue } = openOnDisk();
  await addTexts(queue, "sent");
  disk.failure = "full";
  await expect(queue.ack(1)).rejects.toThrow(/full/);
  await clock.advance(5_000);
  expect(queue.stats().records).toBe(1);
  disk.failure = undefined;
  await clock.advance(1_000);
  expect([queue.stats().records, queue.stats().droppedRecordsTotal]).toEqual([0, 0]);
  await queue.close();
});

it("W3: reports since when and why its disk cannot be written, until a write succeeds 90 s after the last failure", async () => {
  const { clock, disk, queue } = openOnDisk();
  await addTexts(queue, "before");
  expect(queue.condition()).toBeUndefined();
  const since = rfc3339(clock.now());
  const append = () => addTexts(queue, "x").catch(() => undefined);
  const fail = async (failure: typeof disk.failure, reason: string) => {
    disk.failure = failure;
    await append();
    expect(queue.condition()).toEqual({ code: "queue_unwritable", since, reason, path: "/queue" });
  };
  await fail("full", "database or disk is full");
  await clock.advance(60_000);
  // A full disk still takes what is small.
  disk.failure = undefined;
  await append();
  await fail("error", "disk I/O error");
  disk.failure = undefined;
  await clock.advance(89_999);
  await append();
  expect(queue.condition()).toBeDefined();
  await clock.advance(1);
  expect(queue.condition()).toBeUndefined();
  await queue.close();
});

it("Q3: counts what is too large once its source learns of it, and not while a failing disk rejects it", async () => {
  const { disk, queue } = openOnDisk();
  const tooLarge = () => queue.append([testRecord("x", 200_000)]);
  disk.failure = "error";
  await expect(tooLarge()).rejects.toThrow("disk I/O error");
  disk.failure = undefined;
  expect(await tooLarge()).toBe("dropped");
  expect(refusalsOf(closeAccounts(queue))).toEqual([[2, "log_line", "file", 1]]);
  await queue.close();
});

it("Q3: leaves to a source that drops what a failing disk does not take while the queue closes", async () => {
  const { disk, queue } = openOnDisk(createDisk(), () => undefined, true);
  disk.failure = "error";
  expect(await addTexts(queue, "dropped")).toBe("dropped");
  expect(queue.stats().droppedRecordsTotal).toBe(1);
  const kept = addTexts(queue, "kept");
  await Promise.all([expect(kept).rejects.toThrow("disk I/O error"), queue.close()]);
});

it("Q3: leaves no store open where a full disk keeps a queue that has ended from beginning anew", async () => {
  const { disk, queue } = openOnDisk();
  expect(queue.accounts.end()).toBe(true);
  await queue.close();
  let closes = 0;
  disk.failure = "full";
  expect(() => openOnDisk(disk, () => void closes++)).toThrow(/full/);
  expect(closes).toBe(1);
  disk.failure = undefined;
  expect(() => openOnDisk(disk)).not.toThrow();
});
