import { beforeEach, describe, expect, it } from "vitest";
import { createTestClock, type TestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { confirmClock } from "../store/retention/retention-clock.ts";
import { findRetentionPause } from "../store/retention/retention-pause.ts";
import { maintainIngestPartitions } from "./maintain-ingest-partitions.ts";

let database: TestDatabase;
let connection: ConnectedDatabase;
let clock: TestClock;
/** The clock of the database, where it differs from core's. */
let databaseNow: number | undefined;
const entropy = createSeededEntropy();
beforeEach(async () => {
  database = await useTestDatabase();
  connection = database.connect();
  clock = createTestClock(Date.UTC(2026, 5, 1, 12));
  databaseNow = undefined;
});

const tick = (retentionDays = 30, db = connection.db) =>
  maintainIngestPartitions(
    { db, clock, entropy },
    { retentionDays, databaseTime: async () => databaseNow ?? clock.now() },
  );

/** Sets the clock as it is for a core that has run all the time: seen just before. */
const passTo = async (time: number) => {
  clock.set(time);
  await connection.sql`update retention_clock set seen_at = ${new Date(time - 1).toISOString()}::text::timestamptz`;
};

const dropped = () => connection.sql<{ target: string; details: object }[]>`
  select target_id as target, details from audit_event where action = 'ingest_partition.drop' order by target_id`;

/** Stores a block of so many envelopes. */
const store = (receivedAt: number, envelopes = 1) => connection.sql`
  insert into ingest_block (host_id, queue_id, first_sequence, last_sequence, envelopes, kinds, raw_bytes, payload_bytes, received_at,
    digest, encoding, data)
  values ('h', '\\x00', 1, ${envelopes}::int, ${envelopes}::int, '{log_line}', 0, 0,
    ${new Date(receivedAt).toISOString()}::text::timestamptz, '', 1, '')`;

/** Stores a row as earlier versions did. */
const storeRow = (receivedAt: number) => connection.sql`
  insert into ingest_envelope (host_id, queue_id, sequence, kind, received_at, source, attributes, payload)
  values ('h', '\\x00', 1, 'log_line', ${new Date(receivedAt).toISOString()}::text::timestamptz, '', '{}', '')`;

/** Which partition holds which days. */
const held = () => connection.sql`
  select tableoid::regclass::text as partition, to_char(received_at, 'YYYYMMDD') as day from ingest_block
  union all select tableoid::regclass::text, to_char(received_at, 'YYYYMMDD') from ingest_envelope order by day, partition`;

const day = 86_400_000;

describe("maintainIngestPartitions", () => {
  it("creates yesterday, today and a week ahead, and does nothing the second time", async () => {
    const report = await tick();
    expect(report?.dropped).toEqual([]);
    expect(report?.created[0]).toBe("2026-05-31");
    expect(report?.created.at(-1)).toBe("2026-06-08");
    expect(report?.created.length).toBe(9);
    expect(await tick()).toBeUndefined();
    await store(clock.now());
    await storeRow(clock.now());
    expect(await held()).toEqual([
      { partition: "ingest_block_20260601", day: "20260601" },
      { partition: "ingest_envelope_20260601", day: "20260601" },
    ]);
    const storage =
      await connection.sql`select attname as name, attstorage as storage from pg_attribute
      where attrelid in ('ingest_block_20260601'::regclass, 'ingest_envelope_20260601'::regclass) and attname in ('data', 'payload')
      order by attname`;
    expect(storage).toEqual([
      { name: "data", storage: "e" },
      { name: "payload", storage: "e" },
    ]);
  });

  it("stores a row without a partition in the default one, and moves it when its partition is created", async () => {
    await store(clock.now());
    await store(clock.now() + 100 * day);
    expect((await held()).map(({ partition }) => partition)).toEqual([
      "ingest_block_default",
      "ingest_block_default",
    ]);
    await tick();
    expect(await held()).toEqual([
      { partition: "ingest_block_20260601", day: "20260601" },
      { partition: "ingest_block_default", day: "20260909" },
    ]);
  });

  it("moves blocks to their day, with its index by host, and drops them with the rows of that day, audited with what an export lacks", async () => {
    await connection.sql`
      insert into export_position (name, position, position_at, lease_until, epoch, exported, rejected_items, lost, updated_at)
      values ('behind', 0, now(), now(), 0, 0, 0, 0, now()), ('done', 1000000000000000, now(), now(), 0, 0, 0, 0, now())`;
    await store(clock.now(), 200);
    await tick();
    await store(clock.now(), 200);
    await storeRow(clock.now());
    const [stored] =
      await connection.sql`select distinct tableoid::regclass::text as partition, count(*) over ()::int as blocks from ingest_block`;
    expect(stored).toEqual({ partition: "ingest_block_20260601", blocks: 2 });
    const [index] = await connection.sql`
      select indexdef as definition from pg_indexes where tablename = 'ingest_block_20260601' and indexdef like '%host_id%'`;
    expect(index?.definition).toMatch(/USING btree \(host_id, received_at\)$/);
    await passTo(Date.UTC(2026, 6, 2));
    await tick(30);
    expect((await tick(30))?.dropped).toEqual(["2026-06-01"]);
    expect((await dropped()).at(-1)?.details).toMatchObject({
      rows: 401,
      exact: true,
      not_exported: { behind: 401 },
    });
    expect(await connection.sql`select name, lost::int from export_position order by name`).toEqual(
      [
        { name: "behind", lost: 401 },
        { name: "done", lost: 0 },
      ],
    );
    expect(await connection.sql`select count(*)::int as left from ingest_block`).toEqual([
      { left: 0 },
    ]);
  });

  it("drops a day when its last envelope is older than the retention, and drops nothing for 0", async () => {
    await tick();
    await store(clock.now());
    await passTo(Date.UTC(2026, 6, 1, 23, 59, 59, 999));
    expect((await tick())?.dropped).toEqual(["2026-05-31"]);
    clock.set(Date.UTC(2026, 6, 2));
    expect((await tick(0))?.dropped).toEqual([]);
    expect((await held()).length).toBe(1);
    expect((await tick(30))?.dropped).toEqual(["2026-06-01"]);
    expect(await held()).toEqual([]);
  });

  it("drops nothing while core's clock is 40 days ahead of the database's, or behind", async () => {
    await tick();
    await store(clock.now());
    databaseNow = clock.now();
    for (const days of [40, -40, 0.004]) {
      clock.set(databaseNow + days * day);
      expect((await tick())?.clocks_differ).toBe(true);
    }
    expect((await held()).length).toBe(1);
    expect(await dropped()).toEqual([]);
  });

  it("drops the data of one day on a day, the oldest first, each audited with its envelopes", async () => {
    await tick();
    for (const days of [-1, 0, 0, 1]) await store(clock.now() + days * day, 5);
    await storeRow(clock.now());
    await store(clock.now() - 400 * day, 7);
    await passTo(Date.UTC(2026, 7, 1));
    expect((await tick())?.dropped).toEqual(["2026-05-31"]);
    for (let ticks = 0; ticks < 3; ticks++) expect(await tick()).toBeUndefined();
    expect((await held()).length).toBe(5);
    clock.set(clock.now() + day);
    expect((await tick())?.dropped).toEqual(["2026-06-01"]);
    expect(await dropped()).toEqual([
      {
        target: "2026-05-31",
        details: { rows: 5, exact: true, partition: "day", retention_days: 30 },
      },
      {
        target: "2026-06-01",
        details: { rows: 11, exact: true, partition: "day", retention_days: 30 },
      },
    ]);
    clock.set(clock.now() + day);
    expect((await tick())?.dropped).toEqual(["2026-06-02"]);
    clock.set(clock.now() + day);
    // Days without data do not count.
    for (let ticks = 0; ticks < 8; ticks++) await tick();
    expect((await dropped())[0]).toEqual({
      target: "2025-04-27",
      details: { rows: 7, exact: true, partition: "default", retention_days: 30 },
    });
    expect(await held()).toEqual([]);
  });

  describe("K3: when both clocks jump 40 days ahead", () => {
    /** Three expired days of envelopes, and one of today. */
    const jump = async () => {
      await tick();
      for (const days of [0, 1, 2]) await store(clock.now() + days * day);
      await passTo(clock.now() + 33 * day);
      await store(clock.now());
      clock.set(clock.now() + 40 * day);
    };
    const hour = day / 24;

    it("drops nothing for a day, whatever is restarted, and then one day a day", async () => {
      await jump();
      for (let ticks = 0; ticks < 4; ticks++) {
        expect((await tick())?.dropped).toEqual([]);
        clock.set(clock.now() + 6 * hour);
      }
      expect((await held()).length).toBe(4);
      for (let ticks = 0; ticks < 4; ticks++) await tick();
      expect((await held()).length).toBe(3);
      clock.set(clock.now() + day);
      for (let ticks = 0; ticks < 4; ticks++) await tick();
      expect((await held()).length).toBe(2);
    });

    it("names the jump, and goes on when the clock is set back", async () => {
      await jump();
      const before = clock.now() - 40 * day;
      expect((await tick())?.paused).toEqual({
        from: new Date(before - 1).toISOString(),
        to: clock.iso(),
      });
      expect(await findRetentionPause(connection.db)).toMatchObject({
        until: new Date(clock.now() + day),
      });
      clock.set(before + hour);
      expect((await tick())?.paused).toBeUndefined();
      expect(await findRetentionPause(connection.db)).toBeNull();
      expect((await held()).length).toBe(4);
    });

    it("drops a day at each tick once an operator says that the clock is right", async () => {
      await jump();
      await tick();
      databaseNow = clock.now();
      await connection.db.transaction((tx) => confirmClock(tx, new Date(clock.now())));
      const drops = [];
      for (let ticks = 0; ticks < 3; ticks++) drops.push((await tick())?.dropped);
      expect(drops).toEqual([["2026-05-31"], ["2026-06-01"], ["2026-06-02"]]);
    });

    it("begins the day anew with each further jump", async () => {
      await jump();
      await tick();
      clock.set(clock.now() + 2 * day);
      expect((await tick())?.dropped).toEqual([]);
      expect((await held()).length).toBe(4);
    });
  });

  it("two concurrent cores create each partition once", async () => {
    const other = database.connect();
    await Promise.all([tick(), tick(30, other.db)]);
    expect(await tick()).toBeUndefined();
  });

  it("times out after two seconds behind a long read, so that COPY does not queue behind it, and succeeds later", async () => {
    const reader = database.connect();
    await reader.sql.begin(async (transaction) => {
      await transaction`select count(*) from ingest_block`;
      await expect(tick()).rejects.toMatchObject({ cause: { code: "55P03" } });
      await store(clock.now());
    });
    expect((await tick())?.created.length).toBe(9);
  });
});
