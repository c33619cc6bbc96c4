import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { readFleetRules } from "../../functions/domain/fleet/rules.ts";
import { findFleetPage } from "../../functions/store/fleet/report.ts";
import type { FleetFacets } from "../../proto/fleet-health/facets.ts";
import { type FleetFilter, filterToParams } from "../../proto/fleet-health/filter.ts";
import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { layOutExpiry } from "../../ui/app/fleet/charts/layouts.ts";
import { createTestCore } from "../support/core.ts";
import { figuresOf, seededFilter } from "../support/fleet-figures.ts";

const test = await createTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
afterAll(() => test.close());
await seedFleet(test.db, { count: 120, now: new Date(test.clock.now()) });

const get = async <Body>(path: string, filter: FleetFilter): Promise<Body> => {
  const query = `${path}?${filterToParams(filter)}`;
  const { status, body } = await test.api<Body>("GET", `/v1/collector/health${query}`, {
    as: "auditor",
  });
  if (status !== 200) throw new Error(`${query}: ${JSON.stringify(body)}`);
  return body;
};
const rulesNow = await readFleetRules(test.core);
const rowsOf = async (filter: FleetFilter | undefined, rules = rulesNow): Promise<number> => {
  if (filter === undefined) return 0;
  const page = { sort: "identity", order: "asc", limit: 1000, after: null } as const;
  return (await findFleetPage(test.db, rules, filter, page)).rows.length;
};

it("every figure of the fleet page equals the rows that its link finds, under any filter", async () => {
  const property = fc.asyncProperty(seededFilter, async (filter) => {
    const report = await get<FleetHealthReport>("", filter);
    const facets = await get<FleetFacets>("/facets", filter);
    // An export whose rows no filter of the page can find has no link.
    const figures = figuresOf(filter, report, facets).filter(
      (each) =>
        each.filter !== undefined ||
        filter.condition === undefined ||
        !each.name.startsWith("export"),
    );
    const found = await Promise.all(
      figures.map(async (each) => ({ ...each, count: await rowsOf(each.filter) })),
    );
    expect(found).toEqual(figures);
  });
  await fc.assert(property, { numRuns: 12, seed: 20_261_122, endOnFailure: true });
});

it.each([1, 3])(
  "every bar of certificates of %i days equals the rows that its link finds hours later",
  async (days) => {
    const { bars } = layOutExpiry(await get<FleetFacets>("/facets", {}), undefined, days);
    const later = { ...rulesNow, now: new Date(rulesNow.now.getTime() + 3 * 3_600_000) };
    const found = await Promise.all(
      bars.map(async (bar) => ({ ...bar, count: await rowsOf(bar.filter, later) })),
    );
    expect(found).toEqual(bars);
    expect(bars.filter(({ count }) => count > 0).length).toBeGreaterThan(5);
  },
);
