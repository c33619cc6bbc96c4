import { sql } from "drizzle-orm";
import { beforeAll, beforeEach, expect, it } from "vitest";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { fleetDifferences } from "#tests/support/fleet/fleet-differences.ts";
import { digestKey } from "./heartbeat-reports.ts";
import { createSeenRecorder, type SeenHost } from "./statuses.ts";

const clock = createTestClock();
const database = await useTestDatabase();
const { db, sql: connection } = database.connect();
const thresholds = { staleAfterSeconds: 180, enrollingSeconds: 900, returnSeconds: 96 };
const recordSeen = createSeenRecorder({ db }, clock, thresholds);
const digest = digestKey(new Uint8Array(32).fill(7));
const figures: SeenHost["figures"] = {
  queueRecords: 5,
  queueBytes: 4096,
  oldestRecordAgeSeconds: 3,
  droppedRecordsTotal: 0,
  deadLetters: 0,
  lastAckAgeSeconds: 2,
  process: { rss_bytes: 8e7, cpu_ms: 1500 },
};
let ids: string[] = [];

beforeAll(async () => {
  // Applies to new sessions only.
  await connection`do $$ begin execute format('alter database %I set deadlock_timeout = 10', current_database()); end $$`;
  await seedFleet(db, { count: 40, now: new Date(clock.now()) });
  const rows = await db.execute<{ id: string }>(
    sql`select identity_id as id from collector_health order by 1 limit 20`,
  );
  ids = rows.map(({ id }) => id);
});
beforeEach(async () => {
  await clock.advance(60_000);
  const at = clock.iso(-30_000);
  await db.execute(sql`update collector_health set last_heartbeat_at = ${at}::timestamptz, digest_reported_at = ${at}::timestamptz,
      report_digest = ${digest.toString()}::bigint, dropped_records_total = 0, dead_letters = 0, dropped_since_previous = false,
      queue_at_risk = false, queue_at_risk_since = null, recovered_at = null
    where identity_id in (select identity_id from collector_health order by 1 for update)`);
});

const seen = (index: number, more: Partial<SeenHost> = {}) => ({
  identityId: ids[index] ?? "",
  seenAt: clock.now(),
  digest,
  subnet: "10.1.2.0/24",
  figures,
  ...more,
});
const rowOf = async (index: number) => {
  const [row] = await db.execute<{ recovered_at: string } & Record<string, unknown>>(sql`
    select f.last_heartbeat_at as at, f.queue_bytes::int, f.queue_records, f.queue_oldest_seconds, f.last_ack_seconds, f.queue_at_risk,
      f.lost_records::int, f.recovered_at, h.last_heartbeat_at as report_at
    from fleet_status f join collector_health h using (identity_id) where identity_id = ${ids[index]}::uuid`);
  return {
    ...row,
    recovered_at: row?.recovered_at,
    at: Date.parse(String(row?.at)),
    report_at: Date.parse(String(row?.report_at)),
  };
};

it("records a status beside the report, which stays as it is", async () => {
  expect(await recordSeen(seen(0))).toEqual({ outcome: "recorded", desiredConfig: null });
  expect(await rowOf(0)).toMatchObject({
    at: clock.now(),
    report_at: clock.now() - 30_000,
    queue_bytes: 4096,
    queue_records: 5,
    queue_oldest_seconds: 3,
    last_ack_seconds: 2,
    queue_at_risk: false,
  });
  expect(await fleetDifferences(db)).toEqual([]);
});

it("writes statuses that come one after the other by one statement", async () => {
  await Promise.all([0, 1, 2].map(async (index) => recordSeen(seen(await index))));
  const [written] =
    await db.execute(sql`select count(distinct xmin::text)::int as statements, count(*)::int as rows from fleet_status
    where last_heartbeat_at = ${clock.iso()}::timestamptz`);
  expect(written).toEqual({ statements: 1, rows: 3 });
});

it("returns the assigned config, also of a host whose report is stored again", async () => {
  const [config] = await db.execute<{ id: string; hash: string }>(
    sql`select id, config_hash as hash from collector_config order by id limit 1`,
  );
  for (const index of [1, 2])
    await db.execute(sql`insert into config_assignment (id, identity_id, config_id, assigned_at, assigned_by)
      values (gen_random_uuid(), ${ids[index]}::uuid, ${config?.id}::uuid, now(), gen_random_uuid())
      on conflict do nothing`);
  const lost = { figures: { ...figures, deadLetters: 1 } };
  for (const record of await Promise.all([recordSeen(seen(1)), recordSeen(seen(2, lost))]))
    expect(record).toEqual({
      outcome: "recorded",
      desiredConfig: {
        configId: expect.any(String),
        configHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    });
});

it("needs the report of a host with another digest, without a report, or unknown, and records nothing", async () => {
  const before = await rowOf(3);
  const unknown = "00000000-0000-0000-0000-000000000000";
  const [silent] = await db.execute<{ id: string }>(
    sql`select identity_id as id from fleet_status where last_heartbeat_at = '-infinity' limit 1`,
  );
  for (const status of [
    seen(3, { digest: digest + 1n }),
    seen(3, { identityId: silent?.id ?? "" }),
    seen(3, { identityId: unknown }),
  ])
    expect(await recordSeen(status)).toEqual({ outcome: "report_needed", desiredConfig: null });
  expect(await rowOf(3)).toEqual(before);
});

it("needs the report again after a core that stores no digest has stored one", async () => {
  await db.execute(sql`update collector_health set last_heartbeat_at = ${clock.iso(-1000)}::timestamptz
    where identity_id = ${ids[4]}::uuid`);
  expect(await recordSeen(seen(4))).toMatchObject({ outcome: "report_needed" });
});

it("keeps the newer of two statuses, whichever comes last", async () => {
  await recordSeen(seen(5));
  const old = {
    seenAt: clock.now() - 5000,
    figures: { ...figures, queueBytes: 1, deadLetters: 9 },
  };
  expect(await recordSeen(seen(5, old))).toMatchObject({ outcome: "recorded" });
  expect(await rowOf(5)).toMatchObject({ at: clock.now(), queue_bytes: 4096, lost_records: 0 });
});

it("marks a host at risk while it loses records, and recovered with the first status without new losses", async () => {
  const lost = { ...figures, droppedRecordsTotal: 7 };
  await recordSeen(seen(6, { figures: lost }));
  expect(await rowOf(6)).toMatchObject({
    queue_at_risk: true,
    lost_records: 7,
    report_at: clock.now(),
  });
  await clock.advance(1000);
  await recordSeen(seen(6, { figures: lost }));
  expect(await rowOf(6)).toMatchObject({ queue_at_risk: false, report_at: clock.now() });
  const { recovered_at } = await rowOf(6);
  expect(Date.parse(recovered_at ?? "")).toBe(clock.now());
  await clock.advance(1000);
  await recordSeen(seen(6, { figures: lost }));
  expect(await rowOf(6)).toMatchObject({
    at: clock.now(),
    report_at: clock.now() - 1000,
    recovered_at,
  });
});

it("keeps by which core and from where the host reports, and when that changed, for a report that is stored again too", async () => {
  const [one, other] = ["core-1", "core-2"].map((core) =>
    createSeenRecorder({ db, core }, clock, thresholds),
  );
  const connectionOf = async () => {
    const [row] = await db.execute(
      sql`select core, subnet from fleet_status where identity_id = ${ids[9]}::uuid`,
    );
    const before = await db.execute<{ core: string; subnet: string; at: string }>(
      sql`select core, subnet, until_at as at from fleet_connection where identity_id = ${ids[9]}::uuid order by until_at`,
    );
    return [
      ...before.map(({ core, subnet, at }) => [core, subnet, Date.parse(at) - start]),
      row?.core,
      row?.subnet,
    ];
  };
  await one?.(seen(9));
  const start = clock.now();
  await clock.advance(1000);
  await one?.(seen(9));
  const first = ["", "", 0];
  expect(await connectionOf()).toEqual([first, "core-1", "10.1.2.0/24"]);
  await clock.advance(1000);
  await other?.(seen(9));
  await clock.advance(1000);
  await other?.(seen(9, { subnet: "2001:db8::/64", figures: { ...figures, deadLetters: 3 } }));
  expect(await connectionOf()).toEqual([
    first,
    ["core-1", "10.1.2.0/24", 2000],
    ["core-2", "10.1.2.0/24", 3000],
    "core-2",
    "2001:db8::/64",
  ]);
  // An older status comes late, by the core before.
  await one?.(seen(9, { seenAt: clock.now() - 500 }));
  expect((await connectionOf()).slice(-2)).toEqual(["core-2", "2001:db8::/64"]);
});

it("dates the recovery of a host that was stale, by its last status", async () => {
  await recordSeen(seen(7));
  await clock.advance(170_000);
  await recordSeen(seen(7));
  expect(await rowOf(7)).toMatchObject({ recovered_at: "-infinity" });
  await clock.advance(190_000);
  await recordSeen(seen(7));
  expect(Date.parse((await rowOf(7)).recovered_at ?? "")).toBe(clock.now());
});

it("stores the report of each status and heartbeat while a core of a previous version runs, which knows no others", async () => {
  let hasOlderCore = true;
  const recordBoth = createSeenRecorder(
    { db, hasOlderCore: () => hasOlderCore },
    clock,
    thresholds,
  );
  await recordBoth(seen(8));
  const envelopesAt = async () => {
    await db.execute(sql`update ingest_host set last_envelope_at = ${clock.iso()}::timestamptz
      where host_id = (select identity from fleet_status where identity_id = ${ids[8]}::uuid)`);
    const [row] = await db.execute<{ at: string }>(
      sql`select last_envelope_at as at from fleet_host where identity_id = ${ids[8]}::uuid`,
    );
    return Date.parse(row?.at ?? "");
  };
  expect(await rowOf(8)).toMatchObject({ at: clock.now(), report_at: clock.now() });
  await db.execute(
    sql`insert into core_session (id, started_at, received_until) values (gen_random_uuid(), now(), now())`,
  );
  const older = await envelopesAt();
  expect(older).toBe(clock.now());
  hasOlderCore = false;
  await db.execute(sql`update core_session set reads_status = true, reads_stored_digests = true`);
  await clock.advance(1000);
  await recordBoth(seen(8));
  expect(await rowOf(8)).toMatchObject({ at: clock.now(), report_at: clock.now() - 1000 });
  expect(await envelopesAt()).toBe(older);
});

it("does not deadlock with other cores, in whatever order their statuses and envelopes arrive", async () => {
  const cores = Array.from({ length: 3 }, () =>
    createSeenRecorder({ db: database.connect().db }, clock, thresholds),
  );
  for (let round = 0; round < 15; round++) {
    await clock.advance(1000);
    const at = clock.iso();
    const turns = cores.flatMap((record, core) =>
      ids.map((_, index) =>
        record(
          seen((index * (core + 3) + round) % ids.length, {
            figures: { ...figures, deadLetters: round % 4 },
          }),
        ),
      ),
    );
    const envelopes =
      db.execute(sql`insert into ingest_host select identity, ${at}::timestamptz from fleet_status order by 1
      on conflict (host_id) do update set last_envelope_at = excluded.last_envelope_at`);
    for (const { outcome } of await Promise.all(turns)) expect(outcome).toBe("recorded");
    await envelopes;
  }
  const [found] =
    await connection`select deadlocks::int from pg_stat_database where datname = current_database()`;
  expect(found?.deadlocks).toBe(0);
  expect(await fleetDifferences(db)).toEqual([]);
});
