import { sql } from "drizzle-orm";
import { afterAll, expect, it } from "vitest";
import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import { createTestToken, enrollTestCollector } from "../../../tests/support/collector.ts";
import { createTestCore } from "../../../tests/support/core.ts";
import { createFacetCounts } from "./count-facets.ts";
import { createHealthReports } from "./report.ts";

const test = await createTestCore();
afterAll(() => test.close());
const { token } = await createTestToken(test);
for (const deviceId of ["one", "two"]) await enrollTestCollector(test, { token, deviceId });

const page = { sort: "identity", order: "asc", limit: 10, after: null } as const;
const other = test.database.connect().db;

/** Starts `calls` while the first of their scans cannot end, and returns their results. */
const concurrently = async <Result>(calls: () => Promise<Promise<Result>[]>): Promise<Result[]> => {
  const started = await other.transaction(async (tx) => {
    await tx.execute(sql`lock table fleet_status in access exclusive mode`);
    return { results: await calls() };
  });
  return Promise.all(started.results);
};

it("counts each filter on its own, and shares a summary between states", async () => {
  const report = createHealthReports(test.core);
  const filters: FleetFilter[] = [{}, { device: ["one"] }, { device: ["none"] }, { states: ["revoked"] }, {}];
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
