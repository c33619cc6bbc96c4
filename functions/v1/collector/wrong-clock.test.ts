import { sql } from "drizzle-orm";
import { afterAll, expect, it } from "vitest";
import type { Clock } from "../../../kit/clock.ts";
import type { FleetHealthReport } from "../../../proto/fleet-health/report.ts";
import { heartbeatBody } from "../../../scripts/lab/heartbeat-body.ts";
import { createTestToken, enrollTestCollector, manage, type TestCollector } from "../../../tests/support/collector.ts";
import { createTestCore, type TestCore } from "../../../tests/support/core.ts";
import { correctTimes } from "../../jobs/correct-times.ts";
import { createDatabaseClock, followDatabase } from "../../jobs/database-clock.ts";

const hour = 3_600_000;
/** By how much the clock of core's machine is ahead; that of the database is the test's. */
let aheadMs = 0;
const machine: Clock = {
  now: () => test.clock.now(),
  machineNow: () => test.clock.now() + aheadMs,
  monotonic: () => test.clock.monotonic(),
  sleep: (ms, signal) => test.clock.sleep(ms, signal),
};
const test: TestCore = await createTestCore({ core: { clock: machine } });
afterAll(() => test.close());
const { clock, db } = test;
const { token } = await createTestToken(test);
const [live, dead] = [
  await enrollTestCollector(test, { token, deviceId: "live" }),
  await enrollTestCollector(test, { token, deviceId: "dead" }),
];
const beat = async (host: TestCollector, at = clock.now()) => {
  const { status, body } = await manage(test, host, "heartbeat", heartbeatBody(at));
  return { status, code: body.code, serverTime: body.server_time };
};
const report = async () =>
  (await test.api<FleetHealthReport>("GET", "/v1/collector/health?sort=identity", { as: "auditor" })).body;
const newest = async () => {
  const [row] = await db.execute<{ at: string }>(sql`select max(last_heartbeat_at) as at from fleet`);
  return Date.parse(row?.at ?? "");
};

it("K2: the machine's clock is 2 h ahead for 35 s: heartbeats are accepted, and no time that core stores or returns is ahead", async () => {
  expect((await beat(live)).status).toBe(200);
  await clock.advance(60_000);
  aheadMs = 2 * hour;
  expect(await beat(live)).toMatchObject({ status: 200, serverTime: new Date(clock.now()).toISOString() });
  expect(await newest()).toBe(clock.now());
  expect((await report()).generated_at).toBe(new Date(clock.now()).toISOString());
  await clock.advance(35_000);
  aheadMs = 0;
  expect((await beat(live)).status).toBe(200);
});

it("K2: the database's clock is wrong and the machine's right: heartbeats by either are accepted", async () => {
  await clock.advance(60_000);
  aheadMs = -2 * hour;
  expect((await beat(live, clock.now() - 2 * hour + 10)).code).toBe("stale_request");
  expect((await beat(dead, clock.now() - 2 * hour)).status).toBe(200);
  aheadMs = 0;
});

it("K2: what was stored in a wrong hour is ignored in proofs, and corrected for the states", async () => {
  await clock.advance(60_000);
  const before = clock.now();
  expect((await beat(live)).status).toBe(200);
  clock.set(before + 2 * hour);
  for (const host of [live, dead]) expect((await beat(host)).status).toBe(200);
  clock.set(before + 35_000);
  await db.execute(sql`update proof_use set recent_at = array[${new Date(before).toISOString()}::timestamptz]`);
  expect(await beat(live, before)).toMatchObject({ status: 409, code: "stale_request" });
  expect((await beat(live)).status).toBe(200);
  expect((await beat(live)).code).toBe("stale_request");
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
    where greatest(h.version_since, h.running_config_since, f.version_since, f.recovered_at) > ${new Date(clock.now()).toISOString()}`);
  expect(ahead).toEqual([]);
});

it("K2: corrects hosts in the order of their ids, so that no other writer and it wait for each other", async () => {
  const hosts = [live, dead].map(({ identityId }) => identityId).sort();
  const [first = "", last = ""] = hosts;
  const ahead = new Date(clock.now() + 2 * hour).toISOString();
  const lock = (tx: Pick<typeof db, "execute">, id: string) =>
    tx.execute(sql`select from collector_health where identity_id = ${id}::uuid for no key update nowait`);
  // The first one is the last that a scan of the table finds.
  for (const id of [last, first])
    await db.execute(sql`update collector_health set last_heartbeat_at = ${ahead} where identity_id = ${id}::uuid`);
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
