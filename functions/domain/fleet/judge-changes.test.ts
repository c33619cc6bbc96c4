import { type SQL, sql } from "drizzle-orm";
import { beforeAll, expect, it } from "vitest";
import { deleteOldHistory } from "#functions/store/fleet/history.ts";
import { sampleHosts } from "#functions/store/fleet/host-hours.ts";
import { hourMs } from "#kit/clock.ts";
import {
  describeChange,
  describeComparison,
  type FleetChange,
  type FleetChangeList,
} from "#proto/fleet-health/comparison.ts";
import { useTestCore } from "#tests/support/core.ts";
import { judgeChanges } from "./judge-changes.ts";

const test = await useTestCore({ now: Date.UTC(2026, 10, 26, 5, 5) });
const { auditor, clock, core, db } = test;
const minute = 60_000;
const at = (ms = clock.now()) => sql`${new Date(ms).toISOString()}::timestamptz`;
/** Hosts by their numbers. */
const among = (first: number, last: number) =>
  sql`right(i.id::text, 12) between lpad(to_hex(${first}::int), 12, '0') and lpad(to_hex(${last}::int), 12, '0')`;

beforeAll(async () => {
  await test.seedFleet(300);
  await db.execute(sql`update certificate set status = 'active', revoked_at = null`);
  await db.execute(
    sql`update collector_identity set revoked_at = null, platform = 'linux/amd64', collector_version = '1.0.0', reported_labels = '{"site":"a"}'`,
  );
  await db.execute(
    sql`update collector_health set platform = 'linux/amd64', collector_version = '1.0.0'`,
  );
  // Core begins with the last hour: these changes are older.
  await clock.advance(hourMs);
});

/** Every host sends a heartbeat; some versions take more memory. */
const beat = () =>
  db.execute(sql`update fleet_status set last_heartbeat_at = ${at()}, cpu_ms = ${clock.now() % 1e9}::bigint / 50, lost_records = 0,
    queue_bytes = 100, starts = (version <> '1.0.0')::int, rss_bytes = (8e7 + abs(hashtext(identity)) % 20000000) *
      case version when '2.0.0' then 1.4 when '3.0.0' then 2 else 1 end`);
/** At five past, core takes figures and judges; two cores do. */
const tick = async () => {
  await beat();
  await sampleHosts(db, new Date(clock.now()));
  await Promise.all([judgeChanges(core), judgeChanges(core)]);
};
const pass = async (hours: number) => {
  for (let hour = 0; hour < hours; hour += 1) {
    await clock.advance(hourMs);
    await tick();
  }
};
const upgrade = async (hosts: SQL, version: string) => {
  await beat();
  await db.execute(
    sql`update collector_identity i set collector_version = ${version} where ${hosts}`,
  );
  await db.execute(sql`update collector_health set collector_version = ${version}, last_heartbeat_at = ${at()}
    from collector_identity i where i.id = identity_id and ${hosts}`);
  await beat();
};
const label = async (hosts: SQL, labels: SQL) => {
  await beat();
  await db.execute(sql`update collector_identity i set reported_labels = ${labels} where ${hosts}`);
};
const list = () => auditor.read<FleetChangeList>("/v1/collector/health/changes");
const changeOf = async (words: string) =>
  (await list()).items.find((change) => describeChange(change) === words);
const outcomeOf = async (words: string) => {
  const { comparison } = (await changeOf(words)) ?? {};
  return comparison && describeComparison(comparison);
};
const verdictsOf = (change: FleetChange | undefined) =>
  Object.fromEntries(
    change?.comparison?.measures.map(({ measure, verdict }) => [measure, verdict]) ?? [],
  );

it("judges waves that overlap each by itself, once, and says which version is worse", async () => {
  await pass(3);
  expect(await list()).toEqual({ items: [], next_cursor: null, refused: 0 });
  await clock.advance(15 * minute);
  await upgrade(among(1, 40), "2.0.0");
  await clock.advance(5 * minute);
  await upgrade(among(61, 110), "1.1.0");
  await upgrade(among(111, 115), "3.0.0");
  await clock.advance(40 * minute);
  await upgrade(among(41, 60), "2.0.0");
  await tick();
  expect(
    (await list()).items.map((change) => [describeChange(change), change.hosts, change.comparison]),
  ).toEqual([
    ["version 1.0.0 to 1.1.0", 50, null],
    ["version 1.0.0 to 2.0.0", 40, null],
    ["version 1.0.0 to 3.0.0", 5, null],
  ]);
  await pass(2);
  // The second half of the wave came an hour later, so that it soaks for longer.
  expect(await changeOf("version 1.0.0 to 2.0.0")).toMatchObject({ hosts: 60, comparison: null });
  expect((await changeOf("version 1.0.0 to 1.1.0"))?.comparison?.verdict).toMatch(
    /^(same|unclear)$/,
  );
  await pass(1);
  const worse = await changeOf("version 1.0.0 to 2.0.0");
  expect(worse?.comparison).toMatchObject({
    verdict: "worse",
    changed: 60,
    control: 180,
    unmatched: 0,
  });
  expect(verdictsOf(worse)).toMatchObject({ memory: "worse", cpu: "same" });
  const equal = await changeOf("version 1.0.0 to 1.1.0");
  expect(equal?.comparison).toMatchObject({
    changed: 50,
    control: 150,
    matched_by: ["platform", "version", "labels"],
  });
  expect(verdictsOf(equal)).toMatchObject({ memory: "same", cpu: "same" });
  expect(await outcomeOf("version 1.0.0 to 3.0.0")).toBe(
    "No verdict: 5 changed hosts are too few, it takes 20.",
  );
  expect((await list()).items).toHaveLength(3);
});

it("judges a label whose hosts change while core is away, when it has soaked without the outage; also after a clock that was ahead", async () => {
  await clock.advance(15 * minute);
  await label(among(121, 180), sql`'{"site": "b"}'`);
  // Core's clock was ahead for a while: it has searched hours that are to come, and has figures of ten hosts from then.
  const hour = Math.floor(clock.now() / hourMs);
  await db.execute(
    sql`insert into fleet_change_hour select ${hour}::int + n, 0 from generate_series(0, 3) n`,
  );
  await db.execute(sql`update fleet_hour set figures[1] = figures[1] + 86400000 from collector_identity i
    where i.id = identity_id and ${among(171, 180)}`);
  await tick();
  await clock.advance(10 * minute);
  const began = clock.now();
  await clock.advance(3 * hourMs);
  await db.execute(
    sql`insert into core_outage (id, began_at, ended_at) values (gen_random_uuid(), ${at(began)}, ${at()})`,
  );
  await tick();
  await clock.advance(10 * minute);
  await tick();
  expect(await changeOf("label site a to b")).toMatchObject({
    hosts: 60,
    name: "site",
    comparison: null,
  });
  await pass(1);
  expect((await changeOf("label site a to b"))?.comparison).toBeNull();
  await pass(1);
  const { comparison } = (await changeOf("label site a to b")) ?? {};
  // Those with figures of a time to come are left out.
  expect(comparison).toMatchObject({ changed: 50, matched_by: ["platform", "version", "labels"] });
  expect(comparison?.measures.find(({ measure }) => measure === "memory")).toMatchObject({
    verdict: "same",
    changed: 50,
  });
});

it("compares 20 changes a day of a label that never rests, says how many others there are, and still judges an upgrade", async () => {
  const { items } = await list();
  await clock.advance(5 * minute);
  await label(
    sql`true`,
    sql`jsonb_build_object('site', coalesce(reported_labels ->> 'site', 'a'), 'tick', id)`,
  );
  await upgrade(among(201, 240), "2.0.0");
  await pass(1);
  const { items: after, refused } = await list();
  expect([after.length - items.length, refused]).toEqual([21, 280]);
  expect(after[0] && describeChange(after[0])).toBe("version 1.0.0 to 2.0.0");
  expect(after[1]).toMatchObject({ kind: "label", name: "tick", from: null, hosts: 1 });
  await label(sql`true`, sql`reported_labels - 'tick'`);
  await pass(1);
  expect(await list()).toMatchObject({ items: { length: after.length }, refused: 580 });
  await pass(3);
  expect((await changeOf("version 1.0.0 to 2.0.0"))?.comparison).toMatchObject({
    verdict: "worse",
    changed: 40,
  });
});

it("counts hosts once though a clock that was ahead had their hour searched before", async () => {
  await clock.advance(5 * minute);
  await upgrade(among(281, 300), "5.0.0");
  const before = clock.now();
  for (const now of [before + hourMs, before]) {
    clock.set(now);
    await judgeChanges(core);
  }
  await pass(1);
  expect((await list()).items.filter(({ to }) => to === "5.0.0")).toMatchObject([{ hosts: 20 }]);
});

it("has no verdict of hosts that changed again, also behind a comparison that fails, and forgets it with history", async () => {
  await clock.advance(5 * minute);
  await upgrade(among(241, 280), "4.0.0");
  await pass(1);
  await upgrade(among(241, 280), "1.0.0");
  await pass(1);
  const failing = sql`'00000000-0000-0000-0000-000000000000'::uuid`;
  await db.execute(sql`insert into fleet_change (id, kind, name, began_at, ended_at, hosts)
    values (${failing}, 'version', '', '-infinity', '2026-01-01', 20)`);
  await clock.advance(hourMs);
  await expect(judgeChanges(core)).rejects.toThrow("Invalid time value");
  await db.execute(sql`delete from fleet_change where id = ${failing}`);
  expect(await outcomeOf("version 1.0.0 to 4.0.0")).toBe(
    "No verdict: core has no figures of the hosts, or they changed again.",
  );
  while ((await deleteOldHistory(db, new Date(clock.now() + hourMs))) > 0);
  expect(await list()).toEqual({ items: [], next_cursor: null, refused: 0 });
});
