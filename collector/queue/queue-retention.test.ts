import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, describe, expect, it } from "vitest";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createTestClock, type TestClock } from "#tests/fakes/clock.ts";
import { addTexts, readAll, testRecord as record } from "#tests/support/queue.ts";
import type { Queue } from "./queue.ts";
import { readQueueStats } from "./stats.ts";

let clock: TestClock;
beforeEach(() => {
  clock = createTestClock();
});
const { dirOf, open } = setUpQueues(() => ({ maxDiskUsageBytes: 100_000, clock }));
const sequences = (queue: Queue) => readAll(queue).map(({ sequence }) => sequence);

describe("age", () => {
  it("drops and counts expired records, and makes room for waiting appends", async () => {
    const queue = open({ maxDiskUsageBytes: 5_000, maxRecordAgeSeconds: 60 });
    await queue.append([record("a", 2000)]);
    await clock.advance(50_000);
    await queue.append([record("b", 2000)]);
    const waiting = queue.append([record("c", 2000)]);
    await clock.advance(11_000);
    expect(queue.dropExpired()).toBe(1);
    await waiting;
    expect(sequences(queue)).toEqual([2, 3]);
    expect(queue.stats().droppedRecordsTotal).toBe(1);
  });

  it("Q7: expires nothing with a short age limit when a clock that was ten years behind is set right", async () => {
    const right = clock.now();
    const setBack = () => clock.set(right - 315_576_000_000);
    setBack();
    const queue = open({ maxRecordAgeSeconds: 60 });
    await queue.append(Array.from({ length: 50 }, () => record("a")));
    await queue.close();
    clock.set(right);
    const again = open({ maxRecordAgeSeconds: 60 });
    expect([again.dropExpired(), again.stats().records]).toEqual([0, 50]);
    clock.set(right + 315_576_000_000);
    await clock.advance(2_000);
    expect([again.dropExpired(), again.stats().records]).toEqual([0, 50]);
    await again.close();
    setBack();
    expect(open({ maxRecordAgeSeconds: 60 }).stats().records).toBe(50);
  });

  it("Q7: expires nothing when the wall clock is wrong by ten years, in either direction", async () => {
    const tenYears = 315_576_000_000;
    const queue = open();
    await addTexts(queue, "a");
    clock.set(clock.now() + tenYears);
    await clock.advance(2_000);
    expect(queue.dropExpired()).toBe(0);
    await queue.close();
    clock.set(clock.now() + tenYears);
    const again = open();
    expect([again.dropExpired(), again.stats().oldestRecordAgeSeconds]).toEqual([0, 2]);
    await again.close();
    clock.set(clock.now() - 3 * tenYears);
    expect([open().dropExpired()]).toEqual([0]);
  });
});

describe("dead letters", () => {
  it("Q9: moves one record to the dead letters, counts it across restarts, and keeps the other records", async () => {
    const queue = open();
    await addTexts(queue, "a", "b", "c");
    expect(queue.moveToDeadLetters(2, "payload_too_large", "too large")).toBe(true);
    expect(queue.moveToDeadLetters(2, "payload_too_large", "too large")).toBe(false);
    expect(sequences(queue)).toEqual([1, 3]);
    await queue.close();
    expect(open().stats()).toMatchObject({ records: 2, deadLetters: 1, droppedRecordsTotal: 0 });
  });

  it("keeps the newest dead letters, up to a sixteenth of the cap", async () => {
    const queue = open({ maxDiskUsageBytes: 160_000 });
    for (let index = 0; index < 6; index++) await queue.append([record(`${index}`, 3000)]);
    for (const sequence of sequences(queue)) queue.moveToDeadLetters(sequence, "x", "y");
    expect(queue.stats()).toMatchObject({ records: 0, bytes: 0, deadLetters: 6 });
    await queue.close();
    const database = new DatabaseSync(join(dirOf(), "queue.db"), { readOnly: true });
    expect(
      database
        .prepare("SELECT sequence FROM dead_letter")
        .all()
        .map((row) => row.sequence),
    ).toEqual([4, 5, 6]);
    database.close();
  });
});

describe("figures", () => {
  it("count records and bytes exactly, and report when the queue is at risk", async () => {
    const queue = open({
      maxDiskUsageBytes: 10_000,
      atRiskBytesPercent: 50,
      atRiskOldestSeconds: 100,
    });
    await queue.append([record("a", 2000)]);
    expect(queue.stats()).toMatchObject({
      records: 1,
      maxBytes: 10_000,
      oldestRecordAgeSeconds: 0,
      atRisk: false,
    });
    await queue.append([record("b", 3000)]);
    expect(queue.stats().atRisk).toBe(true);
    await queue.ack(1);
    expect(queue.stats().bytes).toBe(readAll(queue)[0]?.bytes);
    await queue.ack(2);
    expect(queue.stats()).toMatchObject({
      records: 0,
      bytes: 0,
      oldestRecordAgeSeconds: null,
      atRisk: false,
    });
    await addTexts(queue, "c");
    await clock.advance(100_000);
    expect(queue.stats()).toMatchObject({ oldestRecordAgeSeconds: 100, atRisk: true });
  });

  it("are readable while the collector runs and after it, and null before its first start", async () => {
    const risk = {
      maxDiskUsageBytes: 100_000,
      atRiskBytesPercent: 80,
      atRiskOldestSeconds: 86_400,
      clock,
    };
    expect(readQueueStats(dirOf(), risk)).toBeNull();
    const queue = open();
    await addTexts(queue, "a");
    expect(readQueueStats(dirOf(), risk)).toEqual(queue.stats());
    await queue.close();
    expect(readQueueStats(dirOf(), risk)).toMatchObject({ records: 1 });
  });
});
