import { sql } from "drizzle-orm";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { fleetSorts, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { useTestCore } from "#tests/support/core.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { countFleet } from "../facets.ts";
import { countFactors } from "../factors.ts";
import { findFleetPage } from "../host-rows.ts";
import { type FleetPosition, selectHosts, type ViewedFleet } from "../select-hosts.ts";
import { summarizeFleet } from "../summary.ts";
import { column, compare } from "./expression.ts";
import { createFleetColumns } from "./fleet-columns.ts";

const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const stop = new AbortController();
afterAll(() => stop.abort());
const now = new Date(test.clock.now());
await seedFleet(test.db, { count: 300, now });
const createColumns = () =>
  createFleetColumns({
    db: test.db,
    clock: test.clock,
    stopping: stop.signal,
    onFailure: console.error,
  });
const columns = createColumns();
await columns.load();
const { db } = test;
const rules = await readFleetRules(test.core);
const stored: ViewedFleet = { db, rules };
const resident = async (): Promise<ViewedFleet> => ({ db, rules, hosts: await columns.current() });

const filters = fc.constantFrom(
  {},
  { states: [...fleetStates].slice(0, 4) },
  { label: ["env:prod"] },
  { text: ["dc-3"] },
  { drift: ["drifted" as const], notPlatform: ["linux"] },
  { attention: ["needed" as const] },
);

describe("pages from core's memory", () => {
  it("have the rows of those from the database, in each order, page after page", async () => {
    const views = fc.record({
      filter: filters,
      sort: fc.constantFrom(...fleetSorts),
      order: fc.constantFrom("asc" as const, "desc" as const),
      limit: fc.constantFrom(1, 7, 50, 400),
    });
    const property = fc.asyncProperty(views, async ({ filter, ...page }) => {
      let after = null as FleetPosition | null;
      let pages = 0;
      do {
        const expected = await findFleetPage(stored, filter, { ...page, after });
        const actual = await findFleetPage(await resident(), filter, { ...page, after });
        expect(actual.rows.map((row) => row.identity_id)).toEqual(
          expected.rows.map((row) => row.identity_id),
        );
        expect(actual.next?.id).toBe(expected.next?.id);
        // Either kind of cursor continues the other's page.
        after = pages % 2 === 0 ? actual.next : expected.next;
      } while (after !== null && pages++ < 4);
    });
    await fc.assert(property, { numRuns: runsOf(30) });
  });

  it("have the counts of those from the database", async () => {
    const property = fc.asyncProperty(filters, async (filter) => {
      expect(await summarizeFleet(await resident(), filter)).toEqual(
        await summarizeFleet(stored, filter),
      );
      expect(await countFleet(stored, filter)).toEqual(await countFleet(await resident(), filter));
      const byName = async (view: ViewedFleet) => {
        const { counts, ...sums } = await countFactors(view, filter);
        return {
          ...sums,
          counts: new Map(counts.map((each) => [`${each.kind} ${each.value}`, each])),
        };
      };
      expect(await byName(await resident())).toEqual(await byName(stored));
    });
    await fc.assert(property, { numRuns: runsOf(20) });
  });
});

describe("hosts in core's memory", () => {
  const queued = async () => {
    const hosts = await selectHosts(await resident(), compare("queue_bytes", "=", 987_654_321));
    const page = { order: "asc", limit: 10, after: null } as const;
    return (await hosts.first({ key: column("identity"), type: "text" }, page)).ids;
  };

  it("change with the next look, also by a transaction that others overtook", async () => {
    const [one, other, third] = (
      await test.db.execute<{ id: string }>(sql`select identity_id as id from fleet_status limit 3`)
    ).map(({ id }) => id);
    const set = (id = "") =>
      sql`update fleet_status set queue_bytes = 987654321 where identity_id = ${id}::uuid`;
    expect(await queued()).toEqual([]);
    await test.db.transaction(async (tx) => {
      await tx.execute(set(one));
      await test.db.execute(set(other));
      expect(await queued()).toEqual([other]);
      await test.db.execute(set(third));
      expect((await queued())?.sort()).toEqual([other, third].sort());
    });
    expect((await queued())?.sort()).toEqual([one, other, third].sort());
  });

  it("include those that enroll later, in the order of identities", async () => {
    await seedFleet(test.db, { first: 301, count: 5_100, now });
    const page = { sort: "identity", order: "asc", limit: 5_100, after: null } as const;
    const wanted = await findFleetPage(stored, {}, page);
    const { rows } = await findFleetPage(await resident(), {}, page);
    expect(rows.map((row) => row.identity_id)).toEqual(wanted.rows.map((row) => row.identity_id));
    expect(rows).toHaveLength(5_100);
  });

  it("are asked of the database until they are loaded", async () => {
    const fresh = createColumns();
    expect(await fresh.current()).toBeUndefined();
    await fresh.load();
    expect((await fresh.current())?.count).toBe(5_100);
  });

  it("are loaded again when nobody looked for so long that most have changed", async () => {
    await test.clock.advance(60_000);
    expect(await columns.current()).toBeUndefined();
  });
});
