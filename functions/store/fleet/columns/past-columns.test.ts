import { sql } from "drizzle-orm";
import { afterAll, describe, expect, it, vi } from "vitest";
import { fleetSorts, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { seedFleet } from "../../../../scripts/lab/seed-fleet.ts";
import { createTestCore } from "../../../../tests/support/core.ts";
import { fleetThresholds } from "../../../domain/fleet/thresholds.ts";
import { readViewRules } from "../../../domain/fleet/view-rules.ts";
import { countFleet } from "../facets.ts";
import { hostsAt, recordThresholds } from "../history.ts";
import { findFleetPage } from "../report.ts";
import { summarizeFleet } from "../summary.ts";
import { createPastColumns } from "./past-columns.ts";

const test = await createTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
afterAll(() => test.close());
const { db, clock, core, config } = test;
await recordThresholds(db, fleetThresholds(config), new Date(clock.now()));
await seedFleet(db, { count: 300, now: new Date(clock.now()) });
const minute = 60_000;
/** Hosts report, each at a time of its own, and some of them change. */
for (let round = 0; round < 3; round++) {
  await clock.advance(10 * minute);
  const at = sql`${new Date(clock.now()).toISOString()}::timestamptz`;
  await db.execute(sql`
    update collector_health set last_heartbeat_at = ${at}, collector_version = case when boot_id = 'boot' then '1.4.' || ${round}::int end,
      queue_at_risk = not queue_at_risk, queue_at_risk_since = ${at}
    where identity_id in (select identity_id from collector_health order by identity_id offset ${round * 60}::int limit 100 for update)`);
}
const pastColumns = createPastColumns({ db, clock, hostsAt });
const ago = (minutes: number) => new Date(clock.now() - minutes * minute);

describe("the past in core's memory", () => {
  it.each([25, 12, 2])("has the rows and counts of the database, %d minutes ago", async (minutes) => {
    const { rules, columns } = await readViewRules({ ...core, pastColumns }, ago(minutes));
    const { rules: same } = await readViewRules(core, ago(minutes));
    expect(rules.versions.toSorted()).toEqual(same.versions.toSorted());
    for (const filter of [{}, { states: fleetStates.slice(0, 4) }, { version: ["1.4.*"] }, { label: ["env:prod"] }]) {
      expect(await summarizeFleet(db, rules, filter, columns)).toEqual(await summarizeFleet(db, same, filter));
      expect(await countFleet(db, same, filter)).toMatchObject(await countFleet(db, rules, filter, columns));
      for (const sort of fleetSorts) {
        const page = { sort, order: "desc", limit: 50, after: null } as const;
        const expected = await findFleetPage(db, same, filter, page);
        const actual = await findFleetPage(db, rules, filter, page, { columns });
        expect(actual.rows.map(({ id }) => id)).toEqual(expected.rows.map(({ id }) => id));
        expect(actual.next?.id).toBe(expected.next?.id);
      }
    }
  });

  it("is loaded once for a time, of which two are kept, until nobody has looked for five minutes", async () => {
    const execute = vi.spyOn(db, "execute");
    const columns = createPastColumns({ db, clock, hostsAt });
    const now = new Date(clock.now());
    const look = async (minutes: number) => {
      execute.mockClear();
      await columns.at(ago(minutes), now).current();
      return execute.mock.calls.length;
    };
    expect([await look(20), await look(20), await look(10), await look(20)]).toEqual([1, 0, 1, 0]);
    expect([await look(5), await look(20), await look(10)]).toEqual([1, 0, 1]);
    const at = ago(10);
    const again = async () => {
      execute.mockClear();
      await columns.at(at, now).current();
      return execute.mock.calls.length;
    };
    await clock.advance(4 * minute);
    expect(await again()).toBe(0);
    await clock.advance(4 * minute);
    expect(await again()).toBe(0);
    await clock.advance(6 * minute);
    expect(await again()).toBe(1);
    execute.mockRestore();
  });

  it("is not kept while transactions of that time may not have ended", async () => {
    const columns = createPastColumns({ db, clock, hostsAt });
    const now = new Date(clock.now());
    const at = new Date(clock.now() - 59_000);
    expect(await columns.at(at, now).current()).not.toBe(await columns.at(at, now).current());
  });
});
