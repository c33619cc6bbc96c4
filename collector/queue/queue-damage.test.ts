import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
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
    "without its state": () => {
      const file = new DatabaseSync(database());
      file.exec("DELETE FROM state");
      file.close();
    },
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

it("Q10: reads a queue of format 1, with all it holds, and makes it one of format 2", async () => {
  const old = new DatabaseSync(database());
  old.exec(`PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA user_version = 1;
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
    INSERT INTO state VALUES (1, x'00112233445566778899aabbccddeeff', 42, 1, 100, 5, 2, 1000, 1700000000000);
    INSERT INTO record VALUES (41, 100, 900, 'log_line', 1700000000000, 'file', '{"a":"b"}', x'6869');
    INSERT INTO checkpoint VALUES ('file', '1:2', '{}');`);
  old.close();
  const risk = {
    maxDiskUsageBytes: 1e8,
    atRiskBytesPercent: 80,
    atRiskOldestSeconds: 86_400,
    clock: { now: Date.now },
  };
  expect(readQueueStats(dir, risk)).toMatchObject({ records: 1, quarantined: 0 });
  const queue = open();
  expect(queue.queueId.toHex()).toBe("00112233445566778899aabbccddeeff");
  expect(readAll(queue)).toMatchObject([{ sequence: 41, kind: "log_line", attributes: { a: "b" } }]);
  expect(queue.stats()).toMatchObject({
    records: 1,
    bytes: 100,
    droppedRecordsTotal: 5,
    deadLetters: 2,
    quarantined: 0,
  });
  expect(queue.checkpoints("file").get("1:2")).toBe("{}");
  await queue.append([record("next")]);
  expect(queue.lastSequence).toBe(42);
});

/** A file system of its own, small enough to fill; only root may mount one. */
const canMount = (() => {
  const at = mkdtempSync(join(tmpdir(), "queue-mount-"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", at], { timeout: 5_000 }).status === 0;
  if (mounted) execFileSync("umount", [at]);
  rmSync(at, { recursive: true });
  return mounted;
})();

describe.skipIf(!canMount)("on a file system of its own (needs root)", () => {
  let disk: string;
  beforeEach(() => {
    disk = join(dir, "disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
  });
  afterEach(async () => {
    for (const queue of opened.splice(0)) await queue.close().catch(() => undefined);
    execFileSync("umount", [disk]);
  });
  const fillDisk = () => {
    for (let size = 65_536; size >= 512; size /= 2)
      for (let file = 0; ; file++)
        try {
          writeFileSync(join(disk, `ballast-${size}-${file}`), Buffer.alloc(size));
        } catch {
          break;
        }
  };
  const emptyDisk = () => {
    for (const name of readdirSync(disk)) if (name.startsWith("ballast")) unlinkSync(join(disk, name));
  };
  const readOnly = (on: boolean) => execFileSync("mount", ["-o", `remount,${on ? "ro" : "rw"}`, disk]);

  it("Q3: a full disk refuses what comes, keeps what it has, and takes it when there is room again", async () => {
    const queue = open({}, join(disk, "queue"));
    await queue.append([record("before")]);
    fillDisk();
    await expect(queue.append([record("meanwhile", 100_000)])).rejects.toThrow(/full/);
    expect([texts(queue), queue.stats().droppedRecordsTotal]).toEqual([["before"], 0]);
    emptyDisk();
    await queue.append([record("after")]);
    await queue.close();
    expect(texts(open({}, join(disk, "queue")))).toEqual(["before", "after"]);
  });

  it("Q3: with drop_newest_on_full it drops and counts instead, and the count is kept once it can be", async () => {
    const queue = open({ dropNewestOnFull: true }, join(disk, "queue"));
    await queue.append([record("before")]);
    fillDisk();
    expect(await queue.append([record("a", 100_000), record("b", 100_000)])).toBe("dropped");
    expect(queue.stats().droppedRecordsTotal).toBe(2);
    emptyDisk();
    expect(await queue.append([record("after")])).toBe("stored");
    await queue.close();
    const again = open({}, join(disk, "queue"));
    expect([texts(again), again.stats().droppedRecordsTotal]).toEqual([["before", "after"], 2]);
  });

  it("Q3: a read-only disk stops the start with the reason, harms nothing, and serves when it can be written again", async () => {
    const at = join(disk, "queue");
    const queue = open({}, at);
    await queue.append([record("before")]);
    await queue.close();
    readOnly(true);
    expect(() => open({}, at)).toThrow("EROFS: read-only file system");
    readOnly(false);
    expect(texts(open({}, at))).toEqual(["before"]);
  });
});
