import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { countAuditEvents } from "#functions/store/audit/audit.ts";
import { createFleetColumns } from "#functions/store/fleet/columns/fleet-columns.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createFacetCounts } from "./count-facets.ts";
import { createHealthReports } from "./report.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
for (const deviceId of ["one", "two"]) await enroll(deviceId);

const page = { sort: "identity", order: "asc", limit: 10, after: null } as const;
const other = test.database.connect().db;

/** Starts `calls` while the first of their scans cannot end, and returns their results. */
const concurrently = async <Result>(calls: () => Promise<Promise<Result>[]>) => {
  const started = await other.transaction(async (tx) => {
    await tx.execute(sql`lock table fleet_status in access exclusive mode`);
    return { results: await calls() };
  });
  return Promise.all(started.results);
};

it("counts each filter on its own, and shares a summary between states", async () => {
  const report = createHealthReports(test.core);
  const filters: FleetFilter[] = [
    {},
    { device: ["one"] },
    { device: ["none"] },
    { states: ["revoked"] },
    {},
  ];
  const reports = await concurrently(async () => filters.map((filter) => report({ filter }, page)));
  expect(reports.map(({ summary, rows }) => [summary.enrolled, rows.length])).toEqual([
    [2, 2],
    [1, 1],
    [0, 0],
    [2, 0],
    [2, 2],
  ]);
  expect(reports[4]?.summary).toBe(reports[3]?.summary);
  expect(reports[3]?.summary).not.toBe(reports[0]?.summary);
});

it("counts facets under the filter's states, too", async () => {
  const count = createFacetCounts(test.core);
  const filters: FleetFilter[] = [{}, {}, { states: ["revoked"] }];
  const facets = await concurrently(async () => filters.map((filter) => count({ filter })));
  expect(facets.map(({ counts }) => counts.total)).toEqual([2, 2, 0]);
});

it("decides a shared summary by rules that are not older than any of its requests", async () => {
  const report = createHealthReports(test.core);
  const earlier: Promise<unknown>[] = [];
  const [late] = await concurrently(async () => {
    earlier.push(report({ filter: {} }, page), report({ filter: {} }, page));
    await test.clock.advance(60 * 60_000);
    return [report({ filter: {} }, page)];
  });
  await Promise.all(earlier);
  expect(late?.summary.byState).toEqual(new Map([["stale", 2]]));
});

/** Returns the parts of another core of the deployment, which shares views for a second and has the hosts in memory. */
const createOtherCore = async () => {
  const { clock } = test;
  const viewsShared = { ms: 1000, clock, version: () => countAuditEvents(other) };
  const fleetColumns = createFleetColumns({
    db: other,
    clock,
    sharedFor: viewsShared,
    onFailure: console.error,
  });
  await fleetColumns.load();
  return { ...test.core, viewsShared, fleetColumns };
};

it("shows what an operator wrote through another core in the next answer", async () => {
  const core = await createOtherCore();
  const report = createHealthReports(core);
  const count = createFacetCounts(core);
  const revoked = async () => {
    const [{ summary, rows }, { counts }] = await Promise.all([
      report({ filter: {} }, page),
      count({ filter: { states: ["revoked"] } }),
    ]);
    return [
      summary.byState.get("revoked") ?? 0,
      rows.filter(({ state }) => state === "revoked").length,
      counts.total,
    ];
  };
  // The first token has expired.
  const third = await (await createTestToken(test)).enroll("three");
  expect(await revoked()).toEqual([0, 0, 0]);
  await test.revoke(third.identityId);
  expect(await revoked()).toEqual([1, 1, 1]);
});

it("says of what time its data is, which a shared refresh has read up to a second before", async () => {
  const report = createHealthReports(await createOtherCore());
  const readAt = test.clock.now();
  const { asOf } = await report({ filter: {} }, page);
  expect(asOf.getTime()).toBe(readAt);
  await test.clock.advance(87);
  await test.db.execute(sql`update fleet_status set last_heartbeat_at = ${test.clock.iso()}`);
  const recent = await report({ filter: { heartbeat: ["recent"] } }, page);
  expect([recent.rows.length, recent.asOf.getTime()]).toEqual([0, readAt]);
  await test.clock.advance(1000);
  const later = await report({ filter: { heartbeat: ["recent"] } }, page);
  expect([later.rows.length, later.asOf.getTime()]).toEqual([2, test.clock.now()]);
});
