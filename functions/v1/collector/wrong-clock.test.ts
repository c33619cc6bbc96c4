import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { verifyChain } from "#functions/domain/audit/chain.ts";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { correctTimes } from "#functions/jobs/core-jobs.ts";
import { createDatabaseClock, followDatabase } from "#functions/jobs/database-clock.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { loadHosts } from "#functions/store/fleet/columns/resident-hosts.ts";
import { createCheckpoints } from "#functions/store/fleet/past/checkpoints.ts";
import { findRetentionPause } from "#functions/store/retention/retention-pause.ts";
import type { Clock } from "#kit/clock.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, sendHeartbeat, type TestCollector } from "#tests/support/collector.ts";
import { type TestCore, useTestCore } from "#tests/support/core.ts";

const hour = 3_600_000;
/** By how much the clock of core's machine is ahead; that of the database is the test's. */
let aheadMs = 0;
const machine: Clock = {
  now: () => test.clock.now(),
  machineNow: () => test.clock.now() + aheadMs,
  monotonic: () => test.clock.monotonic(),
  sleep: (ms, signal) => test.clock.sleep(ms, signal),
};
const test: TestCore = await useTestCore({ core: { clock: machine } });
const { clock, db } = test;
const { enroll } = await createTestToken(test);
const live = await enroll("live");
const dead = await enroll("dead");
const beat = (host: TestCollector, aheadMs = 0) =>
  sendHeartbeat(test, host, { sent_at: clock.iso(aheadMs) });
const stale = { body: { code: "stale_request" } };
const report = () => test.health("sort=identity");
const newest = async () => {
  const [row] = await db.execute<{ at: string }>(
    sql`select max(last_heartbeat_at) as at from fleet`,
  );
  return Date.parse(row?.at ?? "");
};

it("K2: the machine's clock is 2 h ahead for 35 s: heartbeats are accepted, and no time that core stores or returns is ahead", async () => {
  expect((await beat(live)).status).toBe(200);
  await clock.advance(60_000);
  aheadMs = 2 * hour;
  expect(await beat(live)).toMatchObject({ status: 200, body: { server_time: clock.iso() } });
  expect(await newest()).toBe(clock.now());
  expect((await report()).generated_at).toBe(clock.iso());
  await clock.advance(35_000);
  aheadMs = 0;
  expect((await beat(live)).status).toBe(200);
});

it("K2: the database's clock is wrong and the machine's right: heartbeats by either are accepted", async () => {
  await clock.advance(60_000);
  aheadMs = -2 * hour;
  expect(await beat(live, 10 - 2 * hour)).toMatchObject(stale);
  expect((await beat(dead, -2 * hour)).status).toBe(200);
  aheadMs = 0;
});

it("K2: what was stored in a wrong hour is ignored in proofs, and corrected for the states", async () => {
  await clock.advance(60_000);
  const before = clock.now();
  expect((await beat(live)).status).toBe(200);
  clock.set(before + 2 * hour);
  for (const host of [live, dead]) expect((await beat(host)).status).toBe(200);
  clock.set(before + 35_000);
  await db.execute(
    sql`update proof_use set recent_at = array[${new Date(before).toISOString()}::timestamptz]`,
  );
  expect(await beat(live, -35_000)).toMatchObject(stale);
  expect((await beat(live)).status).toBe(200);
  expect(await beat(live)).toMatchObject(stale);
  expect(await newest()).toBe(before + 2 * hour);
  expect(await correctTimes({ db, clock })).toEqual({ hosts: 2, rollouts: 0 });
  expect(await correctTimes({ db, clock })).toBeUndefined();
  expect(await newest()).toBe(clock.now());
  await clock.advance(120_000);
  await beat(live);
  await clock.advance(61_000);
  expect((await report()).items.map(({ device_id, state }) => [device_id, state])).toEqual([
    ["dead", "stale"],
    ["live", "healthy"],
  ]);
  const ahead = await db.execute(sql`
    select from collector_health h join fleet f using (identity_id)
    where greatest(h.version_since, h.running_config_since, f.version_since, f.recovered_at) > ${clock.iso()}`);
  expect(ahead).toEqual([]);
});

it("K1: a jump of the database's clock pauses retention within a minute, until it goes back", async () => {
  const before = clock.now();
  const pauseAt = async (at: number) => {
    clock.set(at);
    await correctTimes({ db, clock });
    return findRetentionPause(db);
  };
  expect(await pauseAt(before)).toBeNull();
  expect(await pauseAt(before + 48 * hour)).toMatchObject({ from: new Date(before) });
  expect(await pauseAt(before + 60_000)).toBeNull();
});

it("K1: the past is as it was, though the database's clock was two days ahead for a while", async () => {
  const keepHistory = createHistoryKeeper(test.core);
  const versionAt = async (at: number) => {
    const path = `/v1/collector/health/${live.identityId}?at=${new Date(at).toISOString()}`;
    return (await test.auditor.read<FleetHealthDetail>(path)).item.version;
  };
  const upgrade = async (version: string) => {
    const collector = { ...(heartbeatBody(clock.now()).collector as object), version };
    expect((await sendHeartbeat(test, live, { collector })).status).toBe(200);
  };
  await keepHistory();
  await upgrade("1.0.0");
  await clock.advance(60_000);
  const before = clock.now();
  clock.set(before + 48 * hour);
  await upgrade("2.0.0");
  await keepHistory();
  await createCheckpoints({ db, codec: zstdCodec }).add(new Date(clock.now()), await loadHosts(db));
  clock.set(before + 60_000);
  await correctTimes({ db, clock });
  await clock.advance(60_000);
  const after = clock.now();
  await upgrade("3.0.0");
  await clock.advance(300_000);
  expect(await Promise.all([before - 1, after - 1, after + 120_000].map(versionAt))).toEqual([
    "1.0.0",
    "2.0.0",
    "3.0.0",
  ]);
  const ahead = await db.execute(sql`
    select slot as at from fleet_sample union all select to_timestamp(hour * 3600) from fleet_hour union all select at from fleet_checkpoint
      union all select until_at from fleet_history union all select until_at from fleet_silence union all select until_at from fleet_connection`);
  expect(ahead.filter(({ at }) => Date.parse(String(at)) > clock.now())).toEqual([]);
});

it("K2: corrects hosts in the order of their ids, so that no other writer and it wait for each other", async () => {
  const hosts = [live, dead].map(({ identityId }) => identityId).sort();
  const [first = "", last = ""] = hosts;
  const ahead = clock.iso(2 * hour);
  const lock = (tx: Pick<typeof db, "execute">, id: string) =>
    tx.execute(
      sql`select from collector_health where identity_id = ${id}::uuid for no key update nowait`,
    );
  // The first one is the last that a scan of the table finds.
  for (const id of [last, first])
    await db.execute(
      sql`update collector_health set last_heartbeat_at = ${ahead} where identity_id = ${id}::uuid`,
    );
  const corrected = await db.transaction(async (tx) => {
    await lock(tx, first);
    const correcting = correctTimes({ db, clock });
    const isWaiting = sql`select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))`;
    await expect.poll(async () => (await tx.execute(isWaiting)).length).toBeGreaterThan(0);
    await lock(tx, last);
    return { correcting };
  });
  expect(await corrected.correcting).toEqual({ hosts: 2, rollouts: 0 });
});

it("K1: revokes no host that enrolled while the clock was ahead, and believes no record of operators to be of the future", async () => {
  const before = clock.now();
  clock.set(before + 48 * hour);
  const young = await (await createTestToken(test)).enroll("young");
  expect((await beat(young)).status).toBe(200);
  const path = "/v1/collector/applied-sets/left";
  const content = { policies: [], watches: [], inventory: null, assignments: [] };
  await test.admin.put(path, { revision: 0, content: { ...content, complete: false } });
  await verifyChain(test.core);
  await db.execute(sql`insert into core_report (id, machine, version, started_at, reported_at, clock_ahead_ms, checks, certificates)
    values (${young.identityId}::uuid, 'gone', '1.0.0', now(), ${clock.iso()}, 0, '[]', '{}')`);
  clock.set(before);
  await correctTimes({ db, clock });
  const [none] =
    await db.execute(sql`select num_nulls(revoked_at, config_invalid_since, queue_at_risk_since, renewal_failed_since) as nulls
    from collector_identity join collector_health on identity_id = id where identity_id = ${young.identityId}::uuid`);
  expect(none).toEqual({ nulls: 4 });
  const times =
    await db.execute(sql`select reported_at as at from core_report union all select expires_at - interval '1 hour' from bootstrap_token
    union all select greatest(checked_at, checked_since, pass_started_at) from audit_verification union all select updated_at from applied_set`);
  expect(times.filter(({ at }) => Date.parse(String(at)) > clock.now())).toEqual([]);
});

it("K2: core's time is the database's, whatever this machine's clock does between two measurements", async () => {
  const database = createDatabaseClock(db, clock);
  await database.measure();
  const followed = followDatabase(clock, database);
  const difference = () => Math.abs(followed.now() - Date.now());
  expect(difference()).toBeLessThan(30_000);
  clock.set(Date.now() + 2 * hour);
  expect(difference()).toBeLessThan(30_000);
  expect(Math.round(database.aheadMs() / hour)).toBe(2);
  await database.measure();
  expect(difference()).toBeLessThan(30_000);
});
