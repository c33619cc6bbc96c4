import { sql } from "drizzle-orm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { createTestDatabase } from "../../tests/database.ts";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createHeartbeatWriter, type HealthReport } from "./heartbeats.ts";

const clock = createTestClock();
const database = await createTestDatabase();
afterAll(() => database.drop());
const { db, sql: connection } = database.connect();
const report: HealthReport = {
  boot_id: "boot",
  collector_version: "2.0.0",
  collector_commit: "c0ffee",
  hostname: "host",
  platform: "linux/amd64",
  started_at: "2026-01-01T00:00:00.000Z",
  config_valid: true,
  config_errors: [],
  running_config_hash: null,
  desired_config_hash: null,
  last_known_good_config_hash: null,
  apply_desired_config: null,
  queue_records: 0,
  queue_bytes: 0,
  queue_bytes_max: 1,
  queue_oldest_record_age_seconds: null,
  dropped_records_total: 0,
  dead_letters: 0,
  queue_forks: 0,
  queue_at_risk: false,
  forwarder_connected: true,
  forwarder_last_ack_at: null,
  forwarder_last_error: null,
  renewal_status: "ok",
  renewal_last_attempt_at: null,
  renewal_next_attempt_at: null,
  renewal_last_error: null,
};
let hosts: { id: string; identity: string; fingerprint: string }[] = [];

beforeAll(async () => {
  // Applies to new sessions only, so not to this one.
  await connection`do $$ begin execute format('alter database %I set deadlock_timeout = 10', current_database()); end $$`;
  await seedFleet(db, { count: 5, now: new Date(clock.now()) });
  hosts = await db.execute<(typeof hosts)[number]>(sql`
    select i.id, i.identity, encode(c.fingerprint_sha256, 'hex') as fingerprint
    from collector_identity i join certificate c on c.identity_id = i.id order by 1`);
});

it("heartbeats: a group that deadlocks is written host by host, because the first report of a host locks its fleet row last", async () => {
  const [first, second, third, ...others] = hosts;
  await db.execute(sql`delete from collector_health where identity_id = ${first?.id}::uuid`);
  const core = database.connect();
  const write = createHeartbeatWriter(core.db, clock, { staleAfterSeconds: 180, enrollingSeconds: 900 });
  const waiting = (count: number) =>
    expect
      .poll(
        () => connection`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      .toHaveLength(count);
  const lock = (tx: typeof db, host?: { id: string }) =>
    tx.execute(sql`select from fleet_host where identity_id = ${host?.id}::uuid for no key update`);

  const written: Promise<unknown>[] = [];
  let bulk: Promise<unknown> | undefined;
  await db.transaction(async (tx) => {
    await lock(tx, third);
    for (const host of [...others, first, second, third]) {
      if (host === undefined) throw new Error("too few hosts");
      const use = { fingerprintSha256: host.fingerprint, sentAt: clock.now(), expired: false };
      written.push(write({ identity: host.identity, use, report, labels: null }));
    }
    await waiting(1);
    // In the order of ids, as a batch of envelopes or assignments does.
    bulk = db.transaction(async (other) => {
      await other.execute(sql`set local deadlock_timeout = '1min'`);
      await lock(other, first);
      await lock(other, second);
    });
    await waiting(2);
  });
  await bulk;
  expect(await Promise.all(written)).toMatchObject(Array(5).fill({ outcome: "admitted" }));
  const versions = await db.execute(sql`select distinct version from fleet_host`);
  expect(versions).toEqual([{ version: "2.0.0" }]);
});
