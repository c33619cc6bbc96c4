import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createTestClock, type TestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { addTexts, readAll, testRecord as record } from "#tests/support/queue.ts";
import { QueueClosedError, QueueFullError, QueueLockedError } from "./errors.ts";
import type { Queue } from "./queue.ts";

let clock: TestClock;
beforeEach(() => {
  clock = createTestClock();
});
const { dirOf, open } = setUpQueues(() => ({ maxDiskUsageBytes: 100_000, clock }));
const sequences = (queue: Queue) => readAll(queue).map(({ sequence }) => sequence);

describe("append and read", () => {
  it("returns the stored records in order, also after a restart", async () => {
    const queue = open();
    await Promise.all([addTexts(queue, "a", "b"), addTexts(queue, "c")]);
    const { queueId } = queue;
    await queue.close();
    const again = open({ entropy: createSeededEntropy(2) });
    expect(readAll(again).map(({ sequence, bytes: _, ...rest }) => [sequence, rest])).toEqual([
      [1, record("a")],
      [2, record("b")],
      [3, record("c")],
    ]);
    expect(again.queueId).toEqual(queueId);
  });

  it("reads up to either bound, and at least one record", async () => {
    const queue = open();
    await queue.append([record("a", 1000), record("b", 1000), record("c", 1000)]);
    const read = (maxRecords: number, maxBytes: number) =>
      queue.read(0, { maxRecords, maxBytes }).at(-1)?.lastSequence;
    expect([read(2, 1e6), read(10, 2500), read(10, 1)]).toEqual([2, 2, 1]);
  });

  it("continues inside a block, also after a record of it became a dead letter or was acknowledged", async () => {
    const queue = open();
    await queue.append(["a", "b", "c", "d", "e", "f"].map((text) => record(text)));
    await addTexts(queue, "g");
    const read = (beyond: number, maxRecords: number) =>
      queue
        .read(beyond, { maxRecords, maxBytes: 1e6 })
        .map((found) => [found.firstSequence, found.lastSequence]);
    expect(read(0, 2)).toEqual([[1, 2]]);
    expect(read(2, 2)).toEqual([[3, 4]]);
    for (const { envelopes } of queue.read(2, { maxRecords: 1, maxBytes: 1e6 }))
      if (envelopes.buffer instanceof ArrayBuffer) envelopes.buffer.transfer(0);
    expect(read(3, 2)).toEqual([[4, 5]]);
    queue.moveToDeadLetters(5, "code", "message");
    expect([read(2, 9), read(3, 1), read(4, 9)]).toEqual([
      [
        [3, 4],
        [6, 6],
        [7, 7],
      ],
      [[4, 4]],
      [
        [6, 6],
        [7, 7],
      ],
    ]);
    await queue.ack(6);
    expect([read(0, 9), read(5, 9), read(7, 9)]).toEqual([[[7, 7]], [[7, 7]], []]);
  });

  it("never uses a sequence twice, also when a restart found the queue empty", async () => {
    const queue = open();
    await addTexts(queue, "a", "b");
    await queue.ack(2);
    await queue.close();
    const again = open();
    expect(again.stats().records).toBe(0);
    await addTexts(again, "c");
    expect(sequences(again)).toEqual([3]);
  });

  it("stores checkpoints with their records, and deletes them on null", async () => {
    const queue = open();
    await queue.append([record("a")], { checkpoints: [{ source: "file", key: "k", value: "1" }] });
    await queue.append([], { checkpoints: [{ source: "other", key: "k", value: "2" }] });
    await queue.close();
    const again = open();
    expect(again.checkpoints("file")).toEqual(new Map([["k", "1"]]));
    await again.append([], { checkpoints: [{ source: "file", key: "k", value: null }] });
    expect(again.checkpoints("file")).toEqual(new Map());
    expect(again.checkpoints("other")).toEqual(new Map([["k", "2"]]));
  });

  it("wakes a reader when a record above its sequence is stored, and not before", async () => {
    const queue = open();
    const stop = new AbortController();
    let woken = false;
    const waiting = queue.waitBeyond(1, stop.signal).then(() => {
      woken = true;
    });
    await addTexts(queue, "a");
    expect(woken).toBe(false);
    await addTexts(queue, "b");
    await waiting;
    const aborted = queue.waitBeyond(9, stop.signal);
    stop.abort(new Error("stop"));
    await expect(aborted).rejects.toThrow("stop");
  });
});

describe("a full queue", () => {
  it("makes appends wait, in order, until acks make room", async () => {
    const queue = open({ maxDiskUsageBytes: 5_000 });
    await queue.append([record("a", 2000), record("b", 2000)]);
    const done: string[] = [];
    const big = queue.append([record("c", 2000)]).then(() => done.push("c"));
    const small = queue.append([record("d", 10)]).then(() => done.push("d"));
    await queue.ack(0);
    expect(done).toEqual([]);
    await queue.ack(1);
    await Promise.all([big, small]);
    expect(done).toEqual(["c", "d"]);
    expect(readAll(queue).map(({ payload }) => payload[0])).toEqual(
      [..."bcd"].map((letter) => letter.charCodeAt(0)),
    );
  });

  it("rejects with QueueFullError when the caller's signal aborts, and stores nothing of it later", async () => {
    const queue = open({ maxDiskUsageBytes: 3_000 });
    await queue.append([record("a", 2000)]);
    const caller = new AbortController();
    const refused = queue.append([record("b", 2000)], { signal: caller.signal });
    caller.abort();
    await expect(refused).rejects.toThrow(QueueFullError);
    await expect(queue.append([record("b", 2000)], { signal: caller.signal })).rejects.toThrow(
      QueueFullError,
    );
    await queue.ack(1);
    await addTexts(queue, "c");
    expect(sequences(queue)).toEqual([2]);
  });

  it("rejects, once there is room, an append that is no longer wanted, and admits the next one", async () => {
    const queue = open({ maxDiskUsageBytes: 3_000 });
    await queue.append([record("a", 2000)]);
    const unwanted = queue.append([record("b", 2000)], { isWanted: () => false });
    const next = queue.append([record("c", 2000)], { isWanted: () => true });
    const refused = expect(unwanted).rejects.toThrow(QueueFullError);
    await queue.ack(1);
    await refused;
    expect(await next).toBe("stored");
    expect(sequences(queue)).toEqual([2]);
  });

  it("drops and counts the newest with dropNewestOnFull, and stores the checkpoints", async () => {
    const queue = open({ maxDiskUsageBytes: 3_000, dropNewestOnFull: true });
    expect(await queue.append([record("a", 2000)])).toBe("stored");
    const checkpoints = [{ source: "file", key: "k", value: "9" }];
    expect(await queue.append([record("b", 2000), record("c", 10)], { checkpoints })).toBe(
      "dropped",
    );
    await queue.close();
    const again = open({ maxDiskUsageBytes: 3_000 });
    expect(again.stats()).toMatchObject({ records: 1, droppedRecordsTotal: 2 });
    expect(again.checkpoints("file").get("k")).toBe("9");
  });

  it("Q6: drops and counts an append that could not fit an empty queue, instead of waiting for ever", async () => {
    const queue = open({ maxDiskUsageBytes: 3_000 });
    expect(await queue.append([record("a", 4000)])).toBe("dropped");
    expect(queue.stats()).toMatchObject({ records: 0, bytes: 0, droppedRecordsTotal: 1 });
  });

  it("rejects waiting appends when it closes", async () => {
    const queue = open({ maxDiskUsageBytes: 3_000 });
    await queue.append([record("a", 2000)]);
    const waiting = queue.append([record("b", 2000)]);
    const refused = expect(waiting).rejects.toThrow(QueueClosedError);
    await queue.close();
    await refused;
  });
});

describe("the files", () => {
  it("are readable by their owner alone", async () => {
    await open().append([record("a")]);
    for (const file of ["queue.db", "queue.db-wal", "queue.lock"])
      expect([file, statSync(join(dirOf(), file)).mode & 0o077]).toEqual([file, 0]);
  });

  it("Q8: locks out a second opener, in this process and in another one, until it closes", async () => {
    const queue = open();
    expect(() => open()).toThrow(QueueLockedError);
    const second = spawnSync(
      process.execPath,
      [join(import.meta.dirname, "../../tests/slow/queue-crash/writer.ts"), dirOf(), "1"],
      {
        encoding: "utf8",
      },
    );
    expect([second.status, second.stderr]).toEqual([
      1,
      expect.stringContaining("another process is using the queue in"),
    ]);
    await addTexts(queue, "a");
    await queue.close();
    expect(open().stats().records).toBe(1);
  });
});

it("rejects every append of a transaction that fails, and stores the next one", async () => {
  const queue = open();
  await addTexts(queue, "a");
  const bad = { checkpoints: [{ source: "s", key: "k", value: {} as string }] };
  const results = await Promise.allSettled([
    addTexts(queue, "c"),
    queue.append([record("b")], bad),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  await addTexts(queue, "d");
  expect(sequences(queue)).toEqual([1, 2]);
  expect(queue.stats().records).toBe(2);
});
