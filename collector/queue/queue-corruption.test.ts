import { hash } from "node:crypto";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { takeAccounts, testSigner } from "#tests/collector/support/queue-accounts.ts";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { addTexts, readAll, testRecord as record, textsOf } from "#tests/support/queue.ts";
import type { Queue, QueueOptions } from "./queue.ts";
import { readQueueStats } from "./stats.ts";

const { dirOf, open } = setUpQueues();
const database = () => join(dirOf(), "queue.db");
const limits = { maxDiskUsageBytes: 1e8, atRiskBytesPercent: 80, atRiskOldestSeconds: 86_400 };
const texts = (queue: Queue) => textsOf(readAll(queue));

/** Stores 60 records over many pages, and closes the queue. */
const fill = async () => {
  const queue = open();
  for (let index = 0; index < 60; index++) await queue.append([record(`${index}`, 2000)]);
  await queue.close();
};

const changeBytes = (edit: (bytes: Buffer) => void) => {
  const bytes = readFileSync(database());
  edit(bytes);
  writeFileSync(database(), bytes);
};
const flip = (bytes: Buffer, at: number, bit: number) => {
  bytes[at] = (bytes[at] ?? 0) ^ bit;
};

const change = (statement: string) => {
  const file = new DatabaseSync(database());
  file.exec(statement);
  file.close();
};

describe("Q5: a queue whose database is corrupt", () => {
  const corruptions: Record<string, () => void> = {
    truncated: () => truncateSync(database(), statSync(database()).size - 20_000),
    "overwritten in the middle": () => overwrite(5 * 16_384, 3 * 16_384),
    "without its header": () => overwrite(0, 100),
    "with a flipped bit in a page header": () =>
      changeBytes((bytes) => flip(bytes, 4 * 16_384, 0x08)),
    "without its state row": () => change("DELETE FROM state"),
    "with a sequence beyond 2^53": () => change("UPDATE state SET next_sequence = 1 << 62"),
    "without a format number": () => change("PRAGMA user_version = 0"),
    "with a negative format number": () => change("PRAGMA user_version = -5"),
  };
  const overwrite = (from: number, length: number) =>
    changeBytes((bytes) => bytes.set(createSeededEntropy(7).bytes(length), from));

  for (const [name, corrupt] of Object.entries(corruptions))
    it(`(${name}) is quarantined and counted, and a new one stores records at once`, async () => {
      await fill();
      corrupt();
      const seen: string[] = [];
      const queue = open({
        onQuarantined: (folder) => seen.push(folder),
        entropy: createSeededEntropy(2),
      });
      expect(seen).toEqual([join(dirOf(), "quarantine-1")]);
      expect(existsSync(join(dirOf(), "quarantine-1", "queue.db"))).toBe(true);
      expect(queue.stats()).toMatchObject({ records: 0, quarantined: 1 });
      await addTexts(queue, "new");
      await queue.close();
      const again = open({ onQuarantined: () => expect.fail("the new database is intact") });
      expect([texts(again), again.stats().quarantined]).toEqual([["new"], 1]);
    });

  it("(missing) starts empty, with a new queue id", async () => {
    await fill();
    unlinkSync(database());
    const queue = open({ entropy: createSeededEntropy(2) });
    expect(queue.stats()).toMatchObject({ records: 0, quarantined: 0 });
    await addTexts(queue, "new");
    expect(texts(queue)).toEqual(["new"]);
  });

  it("keeps the newest two quarantines, and counts them all", async () => {
    for (let round = 0; round < 4; round++) {
      writeFileSync(
        database(),
        "this was never a database, and is long enough to be read as one ".repeat(20),
      );
      await open().close();
    }
    expect(readdirSync(dirOf()).filter((name) => name.startsWith("quarantine"))).toEqual([
      "quarantine-3",
      "quarantine-4",
    ]);
    expect(open().stats().quarantined).toBe(4);
  });

  it("starts with a corrupt lock file", async () => {
    await fill();
    writeFileSync(join(dirOf(), "queue.lock"), "x".repeat(4096));
    expect(open().stats().records).toBe(60);
    expect(() => open()).toThrow("another process");
  });
});

describe("Q5: a queue whose database is found corrupt while it runs", () => {
  const count = 900;
  /** Opens a queue with more records than SQLite caches, all of them outside the WAL. */
  const openLarge = async (options: Partial<QueueOptions> = {}) => {
    const first = open();
    const checkpoints = [{ source: "file", key: "1:2", value: "far" }];
    await first.append(
      Array.from({ length: count }, (_, index) => record(`${index}`, 8_000)),
      { checkpoints },
    );
    await first.close();
    return open(options);
  };
  const overwriteMiddle = () => {
    const file = openSync(database(), "r+");
    for (let page = 2; page < 400; page += 3)
      writeSync(file, Buffer.alloc(16_384, 0xaa), 0, 16_384, page * 16_384);
    closeSync(file);
  };

  it("(by a sequence beyond 2^53) continues in a new file", async () => {
    await fill();
    change("UPDATE block SET last_sequence = last_sequence | (1 << 62)");
    const seen: string[] = [];
    const queue = open({ onQuarantined: (folder) => seen.push(folder) });
    readAll(queue);
    expect(seen).toEqual([join(dirOf(), "quarantine-1")]);
    await addTexts(queue, "after");
    expect(texts(queue)).toEqual(["after"]);
  });

  it.each<[string, (queue: Queue) => Promise<unknown>]>([
    ["by a read", async (queue) => readAll(queue)],
    ["by an ack", (queue) => queue.ack(count - 1)],
  ])(
    "(%s) continues in a new file with the same queue id, and counts the lost records",
    async (_, find) => {
      const seen: string[] = [];
      const queue = await openLarge({ onQuarantined: (folder) => seen.push(folder) });
      const { queueId } = queue;
      overwriteMiddle();
      await find(queue);
      expect(seen).toEqual([join(dirOf(), "quarantine-1")]);
      expect(queue.stats()).toMatchObject({
        records: 0,
        bytes: 0,
        quarantined: 1,
        quarantinedRecords: count,
      });
      expect(queue.stats().droppedRecordsTotal).toBe(count);
      await queue.append([record("after")], {
        checkpoints: [{ source: "file", key: "3:4", value: "near" }],
      });
      expect(readAll(queue)).toMatchObject([{ sequence: count + 1 }]);
      await queue.close();
      const again = open({ onQuarantined: () => expect.fail("the new database is intact") });
      expect([again.queueId, texts(again)]).toEqual([queueId, ["after"]]);
      expect([...again.checkpoints("file")]).toEqual([
        ["1:2", "far"],
        ["3:4", "near"],
      ]);
      expect(again.stats()).toMatchObject({ quarantined: 1, quarantinedRecords: count });
    },
  );

  it("admits appends that waited for room", async () => {
    const queue = await openLarge({ maxDiskUsageBytes: count * 8_200 });
    const waiting = queue.append([record("waited", 100_000)]);
    overwriteMiddle();
    readAll(queue);
    expect(await waiting).toBe("stored");
    expect(queue.lastSequence).toBe(count + 1);
  });
});

it.each(["payload 7 of the records", "file.path"])(
  "Q5: a record with a flipped bit in its %j becomes a dead letter, counted, and the other records are read",
  async (part) => {
    const queue = open();
    for (let index = 0; index < 20; index++)
      await addTexts(queue, `payload ${index} of the records`);
    await queue.close();
    changeBytes((bytes) => flip(bytes, bytes.indexOf(part) + 2, 0x01));
    const corrupt: number[] = [];
    const again = open({
      onQuarantined: () => expect.fail("the file is intact"),
      onCorruptRecords: (sequences) => corrupt.push(...sequences),
    });
    expect(readAll(again)).toHaveLength(19);
    expect(corrupt).toHaveLength(1);
    expect(readAll(again).map(({ sequence }) => sequence)).not.toContain(corrupt[0]);
    expect(again.stats()).toMatchObject({
      records: 19,
      deadLetters: 1,
      quarantined: 0,
      droppedRecordsTotal: 0,
    });
  },
);

describe("Q5: a flipped bit", () => {
  it("in the numbers of records and bytes neither fills the queue for good nor lifts its limit", async () => {
    await fill();
    let queue = open();
    const { records, bytes } = queue.stats();
    for (const sign of ["", "-"]) {
      await queue.close();
      change(`UPDATE state SET records = ${sign}(1 << 40), bytes = ${sign}(1 << 40)`);
      queue = open({ maxDiskUsageBytes: bytes + 1_000 });
      expect(queue.stats()).toMatchObject({ records, bytes });
      await expect(
        queue.append([record("x", 2_000)], { signal: AbortSignal.abort() }),
      ).rejects.toThrow("full");
      expect(await queue.append([])).toBe("stored");
    }
  });

  it.each([
    "age_ms = age_ms | (1 << 30)",
    "age_ms = age_ms | (1 << 45)",
    "wall_ms = wall_ms - (1 << 26)",
    "age_ms = -age_ms - 1",
  ])("in the queue's age (%s) expires no record, and is reported if it could", async (flip) => {
    await fill();
    change(`UPDATE state SET ${flip}`);
    const diag = readQueueStats(dirOf(), { ...limits, clock: { now: Date.now } });
    let reports = 0;
    const queue = open({ maxRecordAgeSeconds: 3_600, onWrongAge: () => void reports++ });
    const isAhead = !flip.includes("-age_ms");
    expect([texts(queue).length, reports, queue.stats().atRisk]).toEqual([
      60,
      isAhead ? 1 : 0,
      isAhead,
    ]);
    expect(queue.stats()).toMatchObject({ droppedRecordsTotal: 0, oldestRecordAgeSeconds: 0 });
    expect(diag).toMatchObject({ atRisk: isAhead, oldestRecordAgeSeconds: 0 });
    await queue.close();
    expect(open({ onWrongAge: () => expect.fail("it was corrected") }).stats().records).toBe(60);
  });

  it("closes the database of a queue whose age cannot be corrected", async () => {
    await fill();
    change("UPDATE state SET age_ms = age_ms | (1 << 30)");
    const cause = new Error("the disk is full");
    const onWrongAge = () => {
      throw cause;
    };
    expect(() => open({ onWrongAge })).toThrow(cause);
    const files = readdirSync("/proc/self/fd").flatMap((descriptor) => {
      try {
        return [readlinkSync(`/proc/self/fd/${descriptor}`)];
      } catch {
        return [];
      }
    });
    expect(files.filter((file) => file.startsWith(dirOf()))).toEqual([]);
  });

  it.each(["from", '"records"', "1"])(
    "in %j of accounts and of the open period keeps no record back",
    async (part) => {
      const clock = createTestClock();
      const queue = open({ clock });
      const hour = async (of: Queue) => {
        for (let minute = 0; minute < 60; minute++) {
          await clock.advance(60_000);
          of.accounts.observe();
        }
      };
      await addTexts(queue, "1");
      await hour(queue);
      queue.accounts.seal(testSigner);
      await addTexts(queue, "2");
      await hour(queue);
      await addTexts(queue, "3");
      await queue.close();
      change(`UPDATE account SET content = replace(content, '${part}', 'x');
            UPDATE account_period SET period = replace(period, '${part}', 'x')`);
      const again = open({ clock });
      await addTexts(again, "4");
      await hour(again);
      again.accounts.seal(testSigner);
      // Those that were sealed keep their places in the chain, and core may ask for them.
      const due = again.accounts.next();
      expect([due?.number, due && again.accounts.missing(due, 2)?.number]).toEqual([4, 3]);
      expect(takeAccounts(again).map(({ number, lastSequence }) => [number, lastSequence])).toEqual(
        [[4n, 4n]],
      );
      await addTexts(again, "5");
      expect(texts(again)).toEqual(["1", "2", "3", "4", "5"]);
    },
  );
});

it("Q5: a new queue continues the totals and checkpoints of the corrupt one", async () => {
  const queue = open({ maxDiskUsageBytes: 60_000, dropNewestOnFull: true });
  for (let index = 0; index < 60; index++) await queue.append([record(`${index}`, 2000)]);
  await queue.append([], { checkpoints: [{ source: "file", key: "1:2", value: "far" }] });
  const { queueId } = queue.beginSession("a host");
  await queue.ack(3);
  const { records, droppedRecordsTotal } = queue.stats();
  await queue.close();
  changeBytes((bytes) => flip(bytes, 6 * 16_384, 0x08));
  const again = open({ entropy: createSeededEntropy(2) });
  expect(again.stats()).toMatchObject({
    records: 0,
    quarantined: 1,
    quarantinedRecords: records,
    droppedRecordsTotal: droppedRecordsTotal + records,
  });
  expect(again.checkpoints("file").get("1:2")).toBe("far");
  // Core is asked about the queue id of the corrupt one.
  expect(again.beginSession("a host").leftQueues).toMatchObject([
    { queueId, storedThrough: 3, forked: false },
  ]);
});

/** The files of the directory and their hashes, without the lock. */
const snapshot = () =>
  Object.fromEntries(
    readdirSync(dirOf())
      .filter((name) => name !== "queue.lock")
      .map((name) => [name, hash("sha256", readFileSync(join(dirOf(), name)))]),
  );

it.each([
  ["older", 1, "WAL"],
  ["older", 5, "DELETE"],
  ["newer", 7, "WAL"],
  ["newer", 99, "DELETE"],
])(
  "Q10: a queue of another format: (%s: %i, journal %s) is refused with a clear message, and nothing changes on disk",
  async (_, format, journal) => {
    await fill();
    change(`PRAGMA journal_mode = ${journal}; PRAGMA user_version = ${format}`);
    const before = snapshot();
    for (let attempt = 0; attempt < 2; attempt++)
      expect(() => open({ onQuarantined: () => expect.fail("the file is intact") })).toThrow(
        expect.objectContaining({
          name: "QueueVersionError",
          message: expect.stringContaining(
            `has format ${format}, and this collector reads format 6 alone`,
          ),
        }),
      );
    expect(snapshot()).toEqual(before);
    expect(() => readQueueStats(dirOf(), { ...limits, clock: { now: Date.now } })).toThrow(
      "has format",
    );
    change("PRAGMA user_version = 6");
    expect(open().stats().records).toBe(60);
  },
);
