import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../tests/database.ts";
import { createTestClock, type TestClock } from "../../tests/fakes/clock.ts";
import type { ConnectedDatabase } from "../store/database.ts";
import { maintainIngestPartitions } from "./maintain-ingest-partitions.ts";

let database: TestDatabase;
let connection: ConnectedDatabase;
let clock: TestClock;
beforeEach(async () => {
  database = await createTestDatabase();
  connection = database.connect();
  clock = createTestClock(Date.UTC(2026, 5, 1, 12));
});
afterEach(() => database.drop());

const tick = (retentionDays = 30) => maintainIngestPartitions({ db: connection.db, clock, retentionDays });

const store = (receivedAt: number) => connection.sql`
  insert into ingest_envelope (host_id, queue_id, sequence, kind, received_at, source, attributes, payload)
  values ('h', '\\x00', 1, 'log_line', ${new Date(receivedAt).toISOString()}::text::timestamptz, '', '{}', '')`;

/** Which partition holds which days. */
const held = () => connection.sql<{ partition: string; day: string }[]>`
  select tableoid::regclass::text as partition, to_char(received_at, 'YYYYMMDD') as day from ingest_envelope order by received_at`;

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
    expect(await held()).toEqual([{ partition: "ingest_envelope_20260601", day: "20260601" }]);
    const [storage] = await connection.sql`select attstorage from pg_attribute
      where attrelid = 'ingest_envelope_20260601'::regclass and attname = 'payload'`;
    expect(storage?.attstorage).toBe("e");
  });

  it("stores a row without a partition in the default one, and moves it when its partition is created", async () => {
    await store(clock.now());
    await store(clock.now() + 100 * day);
    expect((await held()).map(({ partition }) => partition)).toEqual([
      "ingest_envelope_default",
      "ingest_envelope_default",
    ]);
    await tick();
    expect(await held()).toEqual([
      { partition: "ingest_envelope_20260601", day: "20260601" },
      { partition: "ingest_envelope_default", day: "20260909" },
    ]);
  });

  it("drops a day when its last envelope is older than the retention, and drops nothing for 0", async () => {
    await tick();
    await store(clock.now());
    clock.set(Date.UTC(2026, 6, 1, 23, 59, 59, 999));
    expect((await tick())?.dropped).toEqual(["2026-05-31"]);
    clock.set(Date.UTC(2026, 6, 2));
    expect((await tick(0))?.dropped).toEqual([]);
    expect((await held()).length).toBe(1);
    expect((await tick(30))?.dropped).toEqual(["2026-06-01"]);
    expect(await held()).toEqual([]);
  });

  it("two concurrent cores create each partition once", async () => {
    const other = database.connect();
    await Promise.all([tick(), maintainIngestPartitions({ db: other.db, clock, retentionDays: 30 })]);
    expect(await tick()).toBeUndefined();
  });

  it("times out after two seconds behind a long read, so that COPY does not queue behind it, and succeeds later", async () => {
    const reader = database.connect();
    await reader.sql.begin(async (transaction) => {
      await transaction`select count(*) from ingest_envelope`;
      await expect(tick()).rejects.toMatchObject({ cause: { code: "55P03" } });
      await store(clock.now());
    });
    expect((await tick())?.created.length).toBe(9);
  });
});
