import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { createFleetColumns } from "#functions/store/fleet/columns/fleet-columns.ts";
import { countFactors } from "#functions/store/fleet/factors.ts";
import { createHostSources } from "#functions/store/fleet/host-sources.ts";
import { dayMs } from "#kit/clock.ts";
import type { FleetFactors } from "#proto/fleet-health/factors.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, sendHeartbeat } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { auditor, clock, core, db } = test;
await createHistoryKeeper(core)();
const { enroll } = await createTestToken(test);
const body = heartbeatBody(0) as Record<"collector" | "config", object>;
/** Rack 7, which has a subnet of its own, loses its power after the first heartbeat; version and region are spread. */
const hosts = await Promise.all(
  Array.from({ length: 16 }, async (_, n) => ({
    host: await enroll(`host-${n}`, "ed25519"),
    from: `10.${n < 5 ? 7 : 8}.0.${n}`,
    report: {
      labels: { rack: n < 5 ? "7" : "8", region: n % 2 === 0 ? "fra1" : "ams2" },
      collector: { ...body.collector, version: n % 3 === 0 ? "1.4.0" : "1.5.0" },
      config: { ...body.config, running_config_hash: (n < 5 ? "c" : "d").repeat(64) },
    },
  })),
);
const beat = (first: number) =>
  Promise.all(
    hosts.slice(first).map(({ host, from, report }) => sendHeartbeat(test, host, report, { from })),
  );
await beat(0);
const before = clock.now() + 1000;
await clock.advance(10 * 60_000);
await beat(5);
await clock.advance(1000);

const rows = async (query: string) => (await test.health(query)).items;
const factors = (query: string) =>
  auditor.read<FleetFactors>(`/v1/collector/health/factors?${query}`);

it("is first what all of them have and no other, with counts that their filters find", async () => {
  const { selected, others, compared, items } = await factors("state=stale");
  expect([selected, others, compared]).toEqual([5, 11, 2 + 2 + 2 + 2 + 2 + 1 + 1 + 1]);
  expect(items.slice(0, 3)).toMatchObject([
    { kind: "label", value: "rack:7", selected: 5, others: 0 },
    { kind: "running_config", value: "c".repeat(16), selected: 5, others: 0 },
    { kind: "subnet", value: "10.7.0.0/24", selected: 5, others: 0 },
  ]);
  expect(items[0]?.expected_by_chance).toBeLessThan(0.05);
  for (const { kind, value, ...counted } of items) {
    const found = await rows(`state=stale&${kind}=${encodeURIComponent(value)}`);
    expect(found, value).toHaveLength(counted.selected);
  }
});

it("is nothing of all hosts or of none", { tags: "workerd" }, async () => {
  expect(await factors("")).toMatchObject({ selected: 16, others: 0, items: [] });
  expect(await factors("device=nobody")).toMatchObject({ selected: 0, others: 16, items: [] });
});

it("is the source of which they have accepted records since yesterday, and not before", async () => {
  const today = Math.floor(clock.now() / dayMs);
  const add = (first: number, last: number, source: string, day: number) =>
    db.execute(sql`insert into volume_source (host_id, day, kind, source, envelopes, payload_bytes)
        select identity, ${day}::int, 'log_line', ${source}, 1, 1 from fleet_host
        where substring(device_id from 6)::int between ${first}::int and ${last}::int`);
  await add(0, 4, "nginx", today - 1);
  await add(0, 15, "otlp", today);
  await add(0, 4, "audit", today - 2);
  const { compared, items } = await factors("state=stale");
  expect(compared).toBe(13 + 2);
  expect(items.filter(({ kind }) => kind === "source")).toMatchObject([
    { value: "nginx", selected: 5, others: 0 },
  ]);
  expect(await rows("source=nginx&not_source=audit")).toHaveLength(5);
});

it("is counted in core's memory as in the database", async () => {
  const columns = createFleetColumns({ db: core.reports, clock, onFailure: () => undefined });
  await columns.load();
  const stored = { db: core.reports, rules: await readFleetRules(core) };
  const resident = { ...stored, hosts: await columns.current() };
  const sources = createHostSources({ db: core.reports, clock });
  const counted = () => countFactors(resident, { states: ["stale"] }, sources);
  const first = await counted();
  expect(first.readsSources).toBe(true);
  expect(first.counts.map(({ kind }) => kind)).not.toContain("source");
  await expect.poll(async () => (await counted()).readsSources).toBe(false);
  expect(new Set((await counted()).counts)).toEqual(
    new Set((await countFactors(stored, { states: ["stale"] })).counts),
  );
});

it("throws once that the sources could not be read, and reads them again", async () => {
  const columns = createFleetColumns({ db: core.reports, clock, onFailure: () => undefined });
  await columns.load();
  const view = await columns.current();
  if (view === undefined) throw new Error("no hosts");
  const gone = new Error("gone");
  const execute: typeof db.execute = () => Promise.reject(gone) as never;
  const sources = createHostSources({ db: { ...db, execute } as typeof db, clock });
  const count = () => sources.count(view, new Uint8Array(view.count), new Date(clock.now()));
  expect(count()).toBeUndefined();
  await Promise.resolve();
  await Promise.resolve();
  expect(count).toThrow("gone");
  expect(count()).toBeUndefined();
});

it("is the policy under which hosts enrolled", async () => {
  const kiosks = await createTestToken(test, { name: "kiosks" });
  await sendHeartbeat(test, await kiosks.enroll("kiosk-1"), {}, { from: "2001:db8::1" });
  expect(await rows("policy=kiosks")).toMatchObject([
    { device_id: "kiosk-1", core: null, subnet: "2001:db8::/64" },
  ]);
  expect((await factors("policy=kiosks&not_device=nobody")).selected).toBe(1);
});

it("is also of the past", async () => {
  const at = new Date(before).toISOString();
  expect(await factors(`state=stale&at=${at}`)).toMatchObject({ at, selected: 0 });
  const [first] = (await factors(`label=rack:7&at=${at}`)).items;
  expect(first).toMatchObject({ kind: "label", value: "rack:7" });
  const refused = await factors(`dropped_more_than=1&at=${at}`);
  expect(refused).toMatchObject({ code: "filter_without_history" });
});
