import { sql } from "drizzle-orm";
import { beforeAll, expect, it } from "vitest";
import { type FleetState, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { updateReportedLabels } from "../certificate/identities.ts";
import type { FleetThresholds } from "./conditions.ts";
import {
  addSample,
  deleteOldHistory,
  findHistoryStart,
  findSamples,
  findThresholdsAt,
  hostsAt,
  recordThresholds,
} from "./history.ts";
import { deleteUnusedLabelSets } from "./labels.ts";

const clock = createTestClock();
const database = await useTestDatabase();
const { db } = database.connect();
const start = new Date(clock.now());
const thresholds: FleetThresholds = {
  heartbeatIntervalSeconds: 60,
  staleAfterSeconds: 180,
  forwardingSeconds: 300,
  enrollingSeconds: 900,
  returnSeconds: 96,
  certExpiringFraction: 0.25,
  versionMin: null,
};
const after = (seconds: number) => new Date(start.getTime() + seconds * 1000);
const text = (at: Date) => sql`${at.toISOString()}::timestamptz`;
let id = "";

beforeAll(async () => {
  await recordThresholds(db, thresholds, start);
  await seedFleet(db, { count: 3, now: start });
  const [row] = await db.execute<{ id: string }>(
    sql`select identity_id as id from fleet_status order by 1 limit 1`,
  );
  id = row?.id ?? "";
});

const report = (at: Date, version: string) =>
  db.execute(sql`update collector_health set last_heartbeat_at = ${text(at)}, collector_version = ${version}, version_since = ${text(start)},
      config_valid = true, queue_at_risk = false, dropped_since_previous = false, renewal_status = 'ok'
    where identity_id = ${id}::uuid`);
const envelope = (at: Date) =>
  db.execute(sql`insert into ingest_host select identity, ${text(at)} from fleet_status where identity_id = ${id}::uuid
    on conflict (host_id) do update set last_envelope_at = excluded.last_envelope_at`);
const rowAt = async (at: Date) => {
  const [row] = await db.execute<{ version: string; envelope: number }>(sql`
    select version, extract(epoch from last_envelope_at)::float8 * 1000 as envelope from ${hostsAt(at)} where identity_id = ${id}::uuid`);
  return row;
};

it("has the facts before and after each change, to the millisecond", async () => {
  await report(after(60), "2.0.0");
  await report(after(120), "2.0.0");
  await report(after(180), "3.0.0");
  const versions = [];
  for (const seconds of [0, 59.999, 60, 179.999, 180, 1000])
    versions.push((await rowAt(after(seconds)))?.version);
  expect(versions).toEqual([versions[0], versions[0], "2.0.0", "2.0.0", "3.0.0", "3.0.0"]);
  expect(versions[0]).not.toBe("2.0.0");
  // Its first report, and two others: the repeated one wrote nothing.
  expect(
    await db.execute(sql`select from fleet_history where identity_id = ${id}::uuid`),
  ).toHaveLength(3);
});

it("has the core and the subnet of each time", async () => {
  const by = (core: string, seconds: number) =>
    db.execute(sql`update fleet_status set core = ${core}, subnet = '10.1.2.0/24', last_heartbeat_at = ${text(after(seconds))}
      where identity_id = ${id}::uuid`);
  await by("core-1", 200);
  await by("core-1", 260);
  await by("core-2", 320);
  const cores = [];
  for (const seconds of [199, 200, 319.999, 320, 1000]) {
    const [row] = await db.execute(
      sql`select core, subnet from ${hostsAt(after(seconds))} where identity_id = ${id}::uuid`,
    );
    cores.push(`${row?.core} ${row?.subnet}`);
  }
  expect(cores).toEqual([
    " ",
    ...Array(2).fill("core-1 10.1.2.0/24"),
    ...Array(2).fill("core-2 10.1.2.0/24"),
  ]);
});

it("has a silence of envelopes that was longer than the threshold, and none that was not", async () => {
  for (const seconds of [1000, 1300, 1601]) await envelope(after(seconds));
  const ages = [];
  for (const seconds of [1299, 1300, 1600, 1601]) {
    const { envelope: last = 0 } = (await rowAt(after(seconds))) ?? {};
    ages.push(seconds - (last - start.getTime()) / 1000);
  }
  expect(ages).toEqual([0, 0, 300, 0]);
});

it("keeps the sets of labels that a host had, as long as its history", async () => {
  const label = (value: string) =>
    updateReportedLabels(db, { identityId: id, labels: { shift: value } });
  await report(after(1900), "3.0.0");
  await label("night");
  await report(after(2000), "3.0.0");
  await label("day");
  await deleteUnusedLabelSets(db);
  const labelsAt = (at: Date) =>
    db.execute(
      sql`select labels from ${hostsAt(at)} join label_set l on l.id = label_set_id where identity_id = ${id}::uuid`,
    );
  expect(await labelsAt(after(1950))).toEqual([{ labels: { shift: "night" } }]);
  expect(await labelsAt(after(2000))).toEqual([{ labels: { shift: "day" } }]);
  await deleteOldHistory(db, after(2001));
  expect(await deleteUnusedLabelSets(db)).toBeGreaterThan(0);
  expect(
    await db.execute(sql`select from label_set where labels->>'shift' = 'night'`),
  ).toHaveLength(0);
});

it("reads the counts of samples from before a state was known", async () => {
  const byState = new Map<FleetState, number>(fleetStates.map((state, index) => [state, index]));
  const byForwarding = { forwarding: 2, stopped: 0, never: 0 };
  await addSample(db, { needsAttention: 1, byForwarding, byState }, start);
  await db.execute(sql`insert into fleet_sample (slot, at, states, needs_attention)
    values (${text(after(600))}, ${text(after(600))}, '{0,0,0,0,0,0,0,3,90}', 3)`);
  const [known, earlier] = await findSamples(db, { from: start, to: after(900), stepMs: 300_000 });
  expect(known?.byState).toEqual(byState);
  expect([earlier?.byState.get("healthy"), earlier?.byState.get("component_unhealthy")]).toEqual([
    90, 0,
  ]);
});

it("has the thresholds of each time, a row for each change", async () => {
  const later = { ...thresholds, staleAfterSeconds: 600 };
  await recordThresholds(db, thresholds, after(10));
  await recordThresholds(db, later, after(3000));
  await recordThresholds(db, later, after(3600));
  expect(await db.execute(sql`select from fleet_threshold`)).toHaveLength(2);
  expect(await findThresholdsAt(db, after(-1))).toBeUndefined();
  expect(await findThresholdsAt(db, after(2999))).toEqual(thresholds);
  expect(await findThresholdsAt(db, after(3000))).toEqual(later);
  expect(await findHistoryStart(db)).toEqual(start);
});

it("loses what ended before the retention, and keeps the thresholds that decide from then on", async () => {
  await report(after(4000), "4.0.0");
  await report(after(5000), "5.0.0");
  await envelope(after(5000));
  expect(await deleteOldHistory(db, after(4500))).toBeGreaterThan(0);
  expect(await deleteOldHistory(db, after(4500))).toBe(0);
  expect(await db.execute(sql`select until_at from fleet_history`)).toHaveLength(1);
  expect(await db.execute(sql`select until_at from fleet_silence`)).toHaveLength(1);
  expect(await db.execute(sql`select until_at from fleet_connection`)).toHaveLength(0);
  expect(await findThresholdsAt(db, after(4500))).toMatchObject({ staleAfterSeconds: 600 });
  expect(await db.execute(sql`select from fleet_threshold`)).toHaveLength(1);
});

it("dates what operators do between heartbeats by their own times", async () => {
  const assignment = "01920000-0000-7000-8000-00000000cafe";
  await report(after(6000), "5.0.0");
  await db.execute(sql`insert into config_assignment (id, identity_id, config_id, assigned_at, assigned_by)
    select ${assignment}::uuid, ${id}::uuid, id, ${text(after(6100))}, ${id}::uuid from collector_config order by id limit 1`);
  await db.execute(
    sql`update config_assignment set ended_at = ${text(after(6200))} where id = ${assignment}::uuid`,
  );
  await db.execute(
    sql`update certificate set status = 'revoked', revoked_at = ${text(after(6300))} where identity_id = ${id}::uuid`,
  );
  await db.execute(
    sql`update collector_identity set revoked_at = ${text(after(6400))} where id = ${id}::uuid`,
  );
  const seen = [];
  for (const seconds of [6099, 6100, 6199, 6200, 6299, 6300, 6399, 6400]) {
    const [row] =
      await db.execute(sql`select config_assigned_at > '-infinity' as assigned, revoked_from, condition_since = ${text(after(6400))} as revoked
      from ${hostsAt(after(seconds))} where identity_id = ${id}::uuid`);
    seen.push([seconds, row?.assigned, row?.revoked_from, row?.revoked]);
  }
  expect(seen).toEqual([
    [6099, false, "infinity", false],
    [6100, true, "infinity", false],
    [6199, true, "infinity", false],
    [6200, false, "infinity", false],
    [6299, false, "infinity", false],
    [6300, false, "-infinity", false],
    [6399, false, "-infinity", false],
    [6400, false, "-infinity", true],
  ]);
});
