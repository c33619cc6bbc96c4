import {
  appendFileSync,
  cpSync,
  existsSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { failReads, hasStrace } from "#tests/support/database/failing-reads.ts";
import { addTexts, readAll, testRecord as record } from "#tests/support/queue.ts";
import { QueueUnreadableError } from "./errors.ts";
import { readQueueStats } from "./stats.ts";

const { dirOf, open } = setUpQueues((opened) => ({ entropy: createSeededEntropy(opened + 2) }));
const limits = {
  maxDiskUsageBytes: 1e8,
  atRiskBytesPercent: 80,
  atRiskOldestSeconds: 86_400,
  clock: systemClock,
};
const position = (value: string) => ({ checkpoints: [{ source: "file", key: "1:2", value }] });

/** Stores 30 × 10 records with a position each, as a queue of its own; `dirOf()` is then what a kill -9 leaves of it. */
const fillAndKill = async (through = 0) => {
  const queue = open({}, "live");
  // The tables are then in the database, and the records in the WAL alone.
  await queue.append([], position("0"));
  await queue.close();
  const again = open({}, "live");
  for (let batch = 1; batch <= 30; batch++)
    await again.append(
      Array.from({ length: 10 }, (_, index) => record(`${batch}.${index}`, 500)),
      position(`${batch * 10}`),
    );
  if (through > 0) await again.ack(through);
  kill("live");
};

/** Copies the files of a queue that is open, but not its lock. */
const kill = (name: string) =>
  cpSync(dirOf(name), dirOf(), { recursive: true, filter: (path) => !path.endsWith("queue.lock") });

const wal = () => join(dirOf(), "queue.db-wal");
const flipBit = (path: string, at: number) => {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 0x10;
  writeFileSync(path, bytes);
};

describe("K5: a queue whose WAL is damaged", () => {
  const damages = {
    "with a flipped bit": () => flipBit(wal(), Math.floor(statSync(wal()).size / 2)),
    halved: () => truncateSync(wal(), Math.floor(statSync(wal()).size / 2)),
    removed: () => rmSync(wal()),
  };

  for (const [name, damage] of Object.entries(damages))
    it(`(${name}) counts the lost records once, is at risk, and uses no sequence again`, async () => {
      await fillAndKill();
      damage();
      const diag = readQueueStats(dirOf(), limits);
      const losses: number[] = [];
      const queue = open({ onLost: (records) => losses.push(records) });
      const kept = readAll(queue).length;
      expect(kept).toBeLessThan(300);
      expect(losses).toEqual([300 - kept]);
      expect(queue.stats()).toMatchObject({
        lostRecords: 300 - kept,
        droppedRecordsTotal: 300 - kept,
        atRisk: true,
      });
      expect(diag).toMatchObject({
        lostRecords: 300 - kept,
        droppedRecordsTotal: 300 - kept,
        atRisk: true,
      });
      // The lines of the lost records can be read again: their position is that of the records that are left.
      expect(queue.checkpoints("file").get("1:2")).toBe(`${kept}`);
      await addTexts(queue, "next");
      expect(readAll(queue).at(-1)?.sequence).toBe(301);
      await queue.close();
      const again = open({ onLost: () => expect.fail("it was counted before") });
      expect(again.stats()).toMatchObject({
        lostRecords: 300 - kept,
        droppedRecordsTotal: 300 - kept,
        atRisk: true,
      });
    });

  it("(removed) loses nothing, and repeats no line, if core had acknowledged everything", async () => {
    await fillAndKill(300);
    rmSync(wal());
    const queue = open({ onLost: () => expect.fail("nothing is lost") });
    expect(queue.stats()).toMatchObject({ lostRecords: 0, droppedRecordsTotal: 0, atRisk: false });
    expect([queue.checkpoints("file").get("1:2"), queue.lastSequence]).toEqual(["300", 300]);
  });

  it("(removed) reads again what core lacks, and no line that it has, if core had acknowledged a part", async () => {
    await fillAndKill(250);
    rmSync(wal());
    const queue = open();
    expect(queue.stats()).toMatchObject({ lostRecords: 50, droppedRecordsTotal: 50, atRisk: true });
    expect([queue.checkpoints("file").get("1:2"), queue.lastSequence]).toEqual(["250", 300]);
  });

  it("(removed before the first checkpoint, so that no table is left) counts every record, and continues where core is", async () => {
    const live = open({}, "live");
    await live.append([record("1"), record("2")], position("2"));
    await live.ack(2);
    await live.append([record("3")], position("3"));
    kill("live");
    rmSync(wal());
    const queue = open();
    expect(queue.stats()).toMatchObject({
      records: 0,
      lostRecords: 1,
      droppedRecordsTotal: 1,
      atRisk: true,
    });
    expect([queue.checkpoints("file").get("1:2"), queue.lastSequence]).toEqual(["2", 3]);
  });

  it("ends to be at risk a day later", async () => {
    await fillAndKill();
    rmSync(wal());
    let skippedMs = 0;
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + skippedMs };
    const queue = open({ clock });
    expect(queue.stats().atRisk).toBe(true);
    skippedMs = 86_400_001;
    expect(queue.stats()).toMatchObject({ atRisk: false, lostRecords: 300 });
  });
});

describe("K5: the mark beside the database", () => {
  const mark = () => join(dirOf(), "queue.mark");

  it("is a lower bound: an older, torn, corrupt or missing one reports no loss", async () => {
    await fillAndKill();
    const whole = readFileSync(mark());
    const changes = [
      () => truncateSync(mark(), whole.length - 7),
      () => flipBit(mark(), whole.length - 7),
      () => writeFileSync(mark(), whole.subarray(0, 200)),
      () => writeFileSync(mark(), ""),
      () => appendFileSync(mark(), createSeededEntropy(3).bytes(5_000)),
      () => rmSync(mark()),
    ];
    for (const [index, change] of changes.entries()) {
      rmSync(dirOf(), { recursive: true });
      kill("live");
      writeFileSync(mark(), whole);
      change();
      const queue = open({ onLost: () => expect.fail(`change ${index} is no loss`) });
      expect(readAll(queue)).toHaveLength(300);
      await queue.close();
    }
  });

  it("still counts what its intact lines say when one of them is corrupt", async () => {
    await fillAndKill();
    flipBit(mark(), readFileSync(mark()).length - 7);
    rmSync(wal());
    expect(open().stats().lostRecords).toBe(290);
  });

  it("stays small, and keeps every position", async () => {
    const queue = open();
    const far = "x".repeat(200_000);
    for (let round = 0; round < 40; round++)
      await queue.append([], {
        checkpoints: [{ source: "file", key: `${round % 3}`, value: `${far}${round}` }],
      });
    expect(statSync(mark()).size).toBeLessThan(3_500_000);
    expect(statSync(mark()).mode & 0o777).toBe(0o600);
    await queue.close();
    rmSync(join(dirOf(), "queue.db"));
    expect([...open().checkpoints("file").values()]).toEqual([`${far}39`, `${far}37`, `${far}38`]);
  });

  it("Q5: keeps the positions of a queue whose database is overwritten, and counts its records", async () => {
    await fillAndKill();
    rmSync(wal());
    writeFileSync(join(dirOf(), "queue.db"), createSeededEntropy(7).bytes(65_536));
    const queue = open();
    expect(queue.checkpoints("file").get("1:2")).toBe("300");
    expect(queue.stats()).toMatchObject({
      quarantined: 1,
      quarantinedRecords: 300,
      droppedRecordsTotal: 300,
      atRisk: true,
    });
    await queue.close();
    expect(
      open({ onLost: () => expect.fail("it was counted before") }).stats().droppedRecordsTotal,
    ).toBe(300);
  });
});

describe.skipIf(!hasStrace())("K6: a disk that returns read errors (needs strace)", () => {
  let recover: (() => Promise<void>) | undefined;
  afterEach(async () => recover?.());

  it.each([1, 3, 4, 6])(
    "from read %i on keeps the queue, which opens when they have ended",
    async (from) => {
      const filled = open();
      for (let index = 0; index < 20; index++) await filled.append([record(`${index}`, 20_000)]);
      await filled.close();
      recover = await failReads(join(dirOf(), "queue.db"), from);
      expect(() => open()).toThrow(QueueUnreadableError);
      await recover();
      const queue = open({ onQuarantined: () => expect.fail("the queue is intact") });
      expect(readAll(queue)).toHaveLength(20);
      expect(existsSync(join(dirOf(), "quarantine-1"))).toBe(false);
    },
  );
});
