import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSeededEntropy } from "../../tests/fakes/entropy.ts";
import { openTestQueue, readAll, testRecord as record } from "../../tests/queue.ts";
import type { Queue, QueueOptions } from "./queue.ts";
import { readQueueStats } from "./stats.ts";

let dir: string;
const opened: Queue[] = [];
const open = (options: Partial<QueueOptions> = {}, at = dir): Queue => {
  const queue = openTestQueue(at, options);
  opened.push(queue);
  return queue;
};
const database = () => join(dir, "queue.db");
const texts = (queue: Queue) => readAll(queue).map(({ payload }) => new TextDecoder().decode(payload));

/** A closed queue of 60 records over many pages. */
const fill = async () => {
  const queue = open();
  for (let index = 0; index < 60; index++) await queue.append([record(`${index}`, 2000)]);
  await queue.close();
};

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "queue-damage-"));
});

afterEach(async () => {
  for (const queue of opened.splice(0)) await queue.close();
  rmSync(dir, { recursive: true });
});

describe("Q5: a queue whose file is damaged", () => {
  const damages: Record<string, () => void> = {
    "torn at its end": () => truncateSync(database(), statSync(database()).size - 20_000),
    "overwritten in the middle": () => overwrite(5 * 16_384, 3 * 16_384),
    "without its header": () => overwrite(0, 100),
    "with one bit of a page's own figures turned over": () => {
      const bytes = readFileSync(database());
      bytes[4 * 16_384] = (bytes[4 * 16_384] ?? 0) ^ 0x08;
      writeFileSync(database(), bytes);
    },
    "without its state": () => change("DELETE FROM state"),
    "whose state counts beyond all numbers": () => change("UPDATE state SET next_sequence = 1 << 62"),
    "whose format has lost its one bit": () => change("PRAGMA user_version = 0"),
    "whose format is below all": () => change("PRAGMA user_version = -4"),
  };
  const change = (statement: string) => {
    const file = new DatabaseSync(database());
    file.exec(statement);
    file.close();
  };
  const overwrite = (from: number, length: number) => {
    const bytes = readFileSync(database());
    bytes.set(createSeededEntropy(7).bytes(length), from);
    writeFileSync(database(), bytes);
  };

  for (const [name, damage] of Object.entries(damages))
    it(`${name} is put aside and counted, and a new one takes records at once`, async () => {
      await fill();
      damage();
      const seen: string[] = [];
      const queue = open({ onQuarantined: (folder) => seen.push(folder), entropy: createSeededEntropy(2) });
      expect(seen).toEqual([join(dir, "quarantine-1")]);
      expect(existsSync(join(dir, "quarantine-1", "queue.db"))).toBe(true);
      expect(queue.stats()).toMatchObject({ records: 0, quarantined: 1 });
      await queue.append([record("new")]);
      await queue.close();
      const again = open({ onQuarantined: () => expect.fail("no crash loop: the new one is whole") });
      expect([texts(again), again.stats().quarantined]).toEqual([["new"], 1]);
    });

  it("that is missing altogether begins anew, with a queue id of its own", async () => {
    await fill();
    unlinkSync(database());
    const queue = open({ entropy: createSeededEntropy(2) });
    expect(queue.stats()).toMatchObject({ records: 0, quarantined: 0 });
    await queue.append([record("new")]);
    expect(texts(queue)).toEqual(["new"]);
  });

  it("keeps the newest two of those put aside, and counts them all", async () => {
    for (let round = 0; round < 4; round++) {
      writeFileSync(database(), "this was never a database, and is long enough to be looked at ".repeat(20));
      await open().close();
    }
    expect(readdirSync(dir).filter((name) => name.startsWith("quarantine"))).toEqual(["quarantine-3", "quarantine-4"]);
    expect(open().stats().quarantined).toBe(4);
  });

  it("does not stop a start when it is the lock that is damaged", async () => {
    await fill();
    writeFileSync(join(dir, "queue.lock"), "x".repeat(4096));
    expect(open().stats().records).toBe(60);
    expect(() => open()).toThrow("another process");
  });
});

describe("Q5: a queue that is found damaged while it runs", () => {
  const count = 900;
  /** More than SQLite keeps in memory, on disk outside the log, and open again. */
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
    for (let page = 2; page < 400; page += 3) writeSync(file, Buffer.alloc(16_384, 0xaa), 0, 16_384, page * 16_384);
    closeSync(file);
  };

  it("by a row that counts beyond all numbers goes on in a new file", async () => {
    await fill();
    const file = new DatabaseSync(database());
    file.exec("UPDATE block SET last_sequence = last_sequence | (1 << 62)");
    file.close();
    const seen: string[] = [];
    const queue = open({ onQuarantined: (folder) => seen.push(folder) });
    readAll(queue);
    expect(seen).toEqual([join(dir, "quarantine-1")]);
    await queue.append([record("after")]);
    expect(texts(queue)).toEqual(["after"]);
  });

  it.each<[string, (queue: Queue) => Promise<unknown>]>([
    ["by a reader", async (queue) => readAll(queue)],
    ["by an ack", (queue) => queue.ack(count - 1)],
  ])("%s goes on in a new file, as the same queue, and counts what it lost", async (_, meet) => {
    const seen: string[] = [];
    const queue = await openLarge({ onQuarantined: (folder) => seen.push(folder) });
    const { queueId } = queue;
    overwriteMiddle();
    await meet(queue);
    expect(seen).toEqual([join(dir, "quarantine-1")]);
    expect(queue.stats()).toMatchObject({ records: 0, bytes: 0, quarantined: 1, quarantinedRecords: count });
    expect(queue.stats().droppedRecordsTotal).toBe(count);
    await queue.append([record("after")], { checkpoints: [{ source: "file", key: "3:4", value: "near" }] });
    expect(readAll(queue)).toMatchObject([{ sequence: count + 1 }]);
    await queue.close();
    const again = open({ onQuarantined: () => expect.fail("the new one is whole") });
    expect([again.queueId, texts(again)]).toEqual([queueId, ["after"]]);
    expect([...again.checkpoints("file")]).toEqual([
      ["1:2", "far"],
      ["3:4", "near"],
    ]);
    expect(again.stats()).toMatchObject({ quarantined: 1, quarantinedRecords: count });
  });

  it("has room again for those who waited for it", async () => {
    const queue = await openLarge({ maxDiskUsageBytes: count * 8_200 });
    const waiting = queue.append([record("waited", 100_000)]);
    overwriteMiddle();
    readAll(queue);
    expect(await waiting).toBe("stored");
    expect(queue.lastSequence).toBe(count + 1);
  });
});

describe("Q5: a record of which bits are turned over", () => {
  it.each(["payload 7 of the records", "file.path"])(
    "in its %j is set aside and counted, and the rest flows",
    async (part) => {
      const queue = open();
      for (let index = 0; index < 20; index++) await queue.append([record(`payload ${index} of the records`)]);
      await queue.close();
      const bytes = readFileSync(database());
      const at = bytes.indexOf(part);
      bytes[at + 2] = (bytes[at + 2] ?? 0) ^ 0x01;
      writeFileSync(database(), bytes);
      const damaged: number[] = [];
      const again = open({
        onQuarantined: () => expect.fail("the file is whole"),
        onDamaged: (sequences) => damaged.push(...sequences),
      });
      expect(readAll(again)).toHaveLength(19);
      expect(damaged).toHaveLength(1);
      expect(readAll(again).map(({ sequence }) => sequence)).not.toContain(damaged[0]);
      expect(again.stats()).toMatchObject({ records: 19, deadLetters: 1, quarantined: 0, droppedRecordsTotal: 0 });
    },
  );
});

it("Q5: what a damaged queue counted is still told of the one that follows it", async () => {
  const queue = open({ maxDiskUsageBytes: 60_000, dropNewestOnFull: true });
  for (let index = 0; index < 60; index++) await queue.append([record(`${index}`, 2000)]);
  const { records, droppedRecordsTotal } = queue.stats();
  await queue.append([], { checkpoints: [{ source: "file", key: "1:2", value: "far" }] });
  await queue.close();
  const bytes = readFileSync(database());
  bytes[6 * 16_384] = (bytes[6 * 16_384] ?? 0) ^ 0x08;
  writeFileSync(database(), bytes);
  const again = open();
  expect(again.stats()).toMatchObject({
    records: 0,
    quarantined: 1,
    quarantinedRecords: records,
    droppedRecordsTotal: droppedRecordsTotal + records,
  });
  expect(again.checkpoints("file").get("1:2")).toBe("far");
});

it.each([
  ["format 1", 1, 1],
  ["format 2", 2, 2],
  ["format 3", 3, 3],
  ["format 3 whose upgrade was cut off", 3, 4],
])("Q10: reads a queue of %s, with all it holds, and makes it one of the newest format", async (_, format, version) => {
  const old = new DatabaseSync(database());
  old.exec(`PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA user_version = ${version};
    CREATE TABLE state (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      queue_id BLOB NOT NULL, next_sequence INTEGER NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL,
      dropped_records INTEGER NOT NULL, dead_letters INTEGER NOT NULL, age_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE record (
      sequence INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, age_ms INTEGER NOT NULL, kind TEXT NOT NULL,
      observed_at_ms INTEGER NOT NULL, source TEXT NOT NULL, attributes TEXT NOT NULL, payload BLOB NOT NULL
    ) STRICT;
    CREATE TABLE dead_letter (
      id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, queue_id BLOB NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
      set_aside_at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, kind TEXT NOT NULL, observed_at_ms INTEGER NOT NULL,
      source TEXT NOT NULL, attributes TEXT NOT NULL, payload BLOB NOT NULL
    ) STRICT;
    CREATE TABLE checkpoint (
      source TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (source, key)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO state VALUES (1, x'00112233445566778899aabbccddeeff', 42, 3, 300, 5, 2, 1000, 1700000000000);
    INSERT INTO record VALUES (38, 100, 800, 'otel_span', 1700000000001, 'otlp', '{}', x'00');
    INSERT INTO record VALUES (39, 100, 800, 'otel_span', 1700000000002, 'otlp', '{}', x'01');
    INSERT INTO record VALUES (41, 100, 900, 'log_line', 1700000000000, 'file', '{"a":"b"}', x'6869');
    INSERT INTO checkpoint VALUES ('file', '1:2', '{}');`);
  if (format >= 2) old.exec("ALTER TABLE state ADD COLUMN quarantined INTEGER NOT NULL DEFAULT 0");
  if (format >= 3)
    old.exec(`ALTER TABLE state ADD COLUMN quarantined_records INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE record ADD COLUMN checksum INTEGER;
      UPDATE record SET checksum = ${crc32(Buffer.of(1), crc32("{}", 39))} + (sequence = 38) WHERE sequence < 40`);
  if (version === 4)
    old.exec(`CREATE TABLE block (
      sequence INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, bytes INTEGER NOT NULL, age_ms INTEGER NOT NULL,
      record_index BLOB NOT NULL, envelopes BLOB NOT NULL
    ) STRICT`);
  old.close();
  const risk = {
    maxDiskUsageBytes: 1e8,
    atRiskBytesPercent: 80,
    atRiskOldestSeconds: 86_400,
    clock: { now: Date.now },
  };
  expect(readQueueStats(dir, risk)).toMatchObject({ records: 3, quarantined: 0, oldestRecordAgeSeconds: 86_400 });
  const damaged: number[] = [];
  const queue = open({ onDamaged: (sequences) => damaged.push(...sequences) });
  expect(queue.queueId.toHex()).toBe("00112233445566778899aabbccddeeff");
  const records = readAll(queue);
  expect(damaged).toEqual(format === 3 ? [38] : []);
  expect(records.slice(-2)).toMatchObject([
    { sequence: 39, kind: "otel_span", observedAtMs: 1_700_000_000_002, source: "otlp", attributes: {} },
    { sequence: 41, kind: "log_line", observedAtMs: 1_700_000_000_000, source: "file", attributes: { a: "b" } },
  ]);
  expect(records.slice(-2).map(({ payload }) => payload.toHex())).toEqual(["01", "6869"]);
  expect(queue.stats()).toMatchObject({
    records: records.length,
    bytes: records.reduce((sum, { bytes }) => sum + bytes, 0),
    droppedRecordsTotal: 5,
    deadLetters: 2 + damaged.length,
    quarantined: 0,
  });
  expect(records).toHaveLength(3 - damaged.length);
  expect(readQueueStats(dir, risk)?.records).toBe(records.length);
  expect(queue.checkpoints("file").get("1:2")).toBe("{}");
  await queue.append([record("next")]);
  await queue.close();
  expect(readAll(open()).map(({ sequence }) => sequence)).toEqual([...records.map(({ sequence }) => sequence), 42]);
});
