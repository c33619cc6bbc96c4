import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { dayAt, saveDays } from "#functions/store/completeness/days.ts";
import { findFleetPage } from "#functions/store/fleet/host-rows.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { byteOfState, incompleteStates } from "#proto/completeness/hour-state.ts";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import { changeFilter, type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import {
  exportKinds,
  fleetSeverities,
  fleetSorts,
  fleetStates,
  severityOf,
} from "#proto/fleet-health/vocabulary.ts";
import { layOutExpiry } from "#ui/app/fleet/charts/layouts.ts";
import { useTestCore } from "../support/core.ts";
import { fleetDifferences } from "../support/fleet/fleet-differences.ts";
import { figuresOf, seededFilter } from "../support/fleet-figures.ts";

const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const now = test.clock.now();
await test.seedFleet(320);
const get = async <Body>(path: string) =>
  await test.auditor.read<Body>(`/v1/collector/health${path}`);
const identities = (await get<FleetHealthReport>("?limit=1000")).items.map((row) => row.identity);
/** The states of each host's last 48 hours, of which some are incomplete; of every fifth host none is settled. */
const incompleteHours = new Map<string, number>();
for (const [index, host] of identities.entries()) {
  if (index % 5 === 0) continue;
  const from = Math.ceil((now - dayMs) / hourMs) * hourMs;
  incompleteHours.set(host, 0);
  for (const day of [dayAt(from) - 1, dayAt(from), dayAt(now)]) {
    const states = Uint8Array.from({ length: 24 }, (_, hour) => {
      const at = day * dayMs + hour * hourMs;
      const isIncomplete = (hour * 7 + index) % 11 < index % 4;
      if (isIncomplete && at >= from)
        incompleteHours.set(host, (incompleteHours.get(host) ?? 0) + 1);
      return byteOfState(
        isIncomplete ? (incompleteStates[hour % incompleteStates.length] ?? "short") : "complete",
      );
    });
    const incomplete = states.filter((byte) => byte !== byteOfState("complete")).length;
    await saveDays(test.db, [
      { host, day, states, details: null, incompleteHours: incomplete, undelivered: 0, xid: null },
    ]);
  }
}
const rowsOf = async (filter: FleetFilter) =>
  (await get<FleetHealthReport>(`?limit=1000&${filterToParams(filter)}`)).items;
const fleet = await rowsOf({});

const later = (row: FleetHealthRow) =>
  Math.max(
    ...[row.certificate, row.successor].map((each) => Date.parse(each?.not_after ?? "") || 0),
  );
const has = (row: FleetHealthRow, ...states: string[]) =>
  row.conditions.some(({ state }) => states.includes(state));

const isRecent = (row: FleetHealthRow) => Date.parse(row.last_heartbeat_at ?? "") >= now - 180_000;
/** How a row forwards, by its times and its queue alone; the threshold is five minutes, to the second. */
const forwardingOf = (row: FleetHealthRow) => {
  if (row.state === "revoked") return null;
  if (row.last_envelope_at === null) return row.last_heartbeat_at === null ? null : "never";
  if (Math.floor(Date.parse(row.last_envelope_at) / 1000) >= Math.floor(now / 1000) - 300)
    return "forwarding";
  return isRecent(row) || (row.queue.bytes ?? 0) > 0 ? "stopped" : null;
};

function needsAttention(row: FleetHealthRow) {
  return fleetSeverities.indexOf(severityOf(row)) < fleetSeverities.indexOf("enrolling");
}
const rulesNow = await readFleetRules(test.core);
/** How many hosts a figure's link finds; none where it has no link. */
const countOf = async (filter: FleetFilter | undefined, rules = rulesNow) => {
  if (filter === undefined) return 0;
  const page = { sort: "identity", order: "asc", limit: 1000, after: null } as const;
  return (await findFleetPage({ db: test.db, rules }, filter, page)).rows.length;
};
/** Since when a row is in its state: by its first condition, or by what it last forwarded. */
const beganAt = (row: FleetHealthRow) => {
  const since = row.conditions[0]?.since;
  if (since !== undefined) return Date.parse(since);
  if (row.forwarding === "stopped")
    return Math.floor(Date.parse(row.last_envelope_at ?? "") / 1000) * 1000;
  return row.forwarding === "never" ? Date.parse(row.enrolled_at) : 0;
};
/** The values by which a page is sorted; an envelope's time counts to the second. */
const sortValues: Record<string, (row: FleetHealthRow) => string | number> = {
  identity: (row) => row.identity,
  severity: (row) => fleetSeverities.indexOf(severityOf(row)) * 1e13 - beganAt(row),
  last_heartbeat_at: (row) => Date.parse(row.last_heartbeat_at ?? "") || 0,
  last_envelope_at: (row) => Math.floor((Date.parse(row.last_envelope_at ?? "") || 0) / 1000),
  certificate_not_after: (row) => Date.parse(row.certificate.not_after),
  queue_bytes: (row) => row.queue.bytes ?? (row.agent === "otelcol" ? 0 : -1),
  incomplete_hours: (row) => row.incomplete_hours ?? 0,
};
const exported: Record<string, (row: FleetHealthRow) => boolean> = {
  stale: (row) => has(row, "stale"),
  queue_risk: (row) => has(row, "queue_at_risk"),
  unhealthy_components: (row) => has(row, "component_unhealthy"),
  renewal_failures: (row) => has(row, "renewal_failed"),
  config_drift: (row) => ["drifted", "on_last_known_good"].includes(row.config.drift),
};
it("a row counts the incomplete hours of the last day, those that began before it left out", () => {
  for (const row of fleet)
    expect(row.incomplete_hours, row.identity).toBe(incompleteHours.get(row.identity) ?? null);
  expect(new Set(incompleteHours.values()).size).toBeGreaterThan(4);
});

describe("under any filter", () => {
  it("pages, summary, facets and the exports agree with each other and with the rows", async () => {
    const property = fc.asyncProperty(
      seededFilter,
      fc.constantFrom(...fleetSorts),
      fc.constantFrom("asc", "desc"),
      fc.integer({ min: 40, max: 300 }),
      async (filter, sort, order, limit) => {
        const query = filterToParams(filter);
        const expected = (await rowsOf(filter)).map((row) => row.identity_id).sort();
        const walked: FleetHealthRow[] = [];
        let cursor: string | null = null;
        let summary: FleetHealthReport["summary"] | undefined;
        do {
          const next: string = cursor === null ? "" : `&cursor=${cursor}`;
          const page: FleetHealthReport = await get(
            `?${query}&sort=${sort}&order=${order}&limit=${limit}${next}`,
          );
          walked.push(...page.items);
          summary ??= page.summary;
          cursor = page.next_cursor;
        } while (cursor !== null);
        expect(walked.map((row) => row.identity_id).sort()).toEqual(expected);
        for (const row of walked) expect(row.forwarding).toBe(forwardingOf(row));

        const values = walked.map((row) => sortValues[sort]?.(row) ?? 0);
        const rising = order === "asc" ? values : values.toReversed();
        expect(
          rising.every((value, place) => place === 0 || (rising[place - 1] ?? 0) <= value),
        ).toBe(true);

        const counted = await rowsOf(changeFilter(filter, { states: undefined }));
        expect(summary).toEqual({
          enrolled: counted.length,
          needs_attention: counted.filter(needsAttention).length,
          active_recent_heartbeats: counted.filter(
            (row) => row.state !== "revoked" && isRecent(row),
          ).length,
          forwarding: counted.filter((row) => forwardingOf(row) === "forwarding").length,
          stopped: counted.filter((row) => forwardingOf(row) === "stopped").length,
          never_forwarded: counted.filter((row) => forwardingOf(row) === "never").length,
          by_state: Object.fromEntries(
            fleetStates.map((state) => [
              state,
              counted.filter((row) => row.state === state).length,
            ]),
          ),
        });

        const facets = await get<FleetFacets>(`/facets?${query}`);
        const sum = (counts: readonly { count: number }[]) =>
          counts.reduce((total, { count }) => total + count, 0);
        const {
          versions,
          platforms,
          drift,
          heartbeat_age: ages,
          certificate_expiry: expiry,
        } = facets;
        expect([
          facets.total,
          sum(versions) + facets.versions_other,
          sum(platforms) + facets.platforms_other,
          sum(drift),
          ages.never + sum(ages.buckets),
          expiry.expired + sum(expiry.days) + expiry.later,
        ]).toEqual(Array(6).fill(walked.length));
        for (const { version, count } of versions)
          expect(count).toBe(walked.filter((row) => row.version === version).length);
        for (const each of drift)
          expect(each.count).toBe(walked.filter((row) => row.config.drift === each.drift).length);
        for (const { key, count, values, values_other: others } of facets.labels) {
          expect(count).toBe(walked.filter((row) => row.labels[key] !== undefined).length);
          expect(sum(values) + others).toBe(count);
          const counts = values.map(({ count }) => count);
          expect(counts).toEqual(counts.toSorted((one, other) => other - one));
          for (const { value, count: hosts } of values)
            expect(hosts).toBe(walked.filter((row) => row.labels[key] === value).length);
        }
        expect(facets.labels.length).toBe(
          new Set(walked.flatMap((row) => Object.keys(row.labels))).size,
        );
        expect(expiry.expired).toBe(walked.filter((row) => later(row) <= now).length);

        for (const kind of exportKinds) {
          const records = (await get<string>(`/export.csv?kind=${kind}&${query}`))
            .trimEnd()
            .split("\r\n")
            .slice(1);
          const wanted = walked
            .filter((row) => exported[kind]?.(row))
            .map((row) => row.identity_id);
          expect(records.map((record) => record.slice(0, 36)).sort()).toEqual(wanted.sort());
          expect(facets.exports[kind]).toBe(wanted.length);
        }
      },
    );
    await fc.assert(property, { numRuns: 15, seed: 20_261_120 });
  });

  it("every figure of the fleet page equals the rows that its link finds", async () => {
    const property = fc.asyncProperty(seededFilter, async (filter) => {
      const report = await get<FleetHealthReport>(`?${filterToParams(filter)}`);
      const facets = await get<FleetFacets>(`/facets?${filterToParams(filter)}`);
      // An export whose rows no filter of the page can find has no link.
      const figures = figuresOf(filter, report, facets).filter(
        (each) =>
          each.filter !== undefined ||
          filter.condition === undefined ||
          !each.name.startsWith("export"),
      );
      const found = await Promise.all(
        figures.map(async (each) => ({ ...each, count: await countOf(each.filter) })),
      );
      expect(found).toEqual(figures);
    });
    await fc.assert(property, { numRuns: 12, seed: 20_261_122, endOnFailure: true });
  });

  it.each([1, 3])(
    "every bar of certificates of %i days equals the rows that its link finds hours later",
    async (days) => {
      const { bars } = layOutExpiry(await get<FleetFacets>("/facets"), undefined, days);
      const inHours = { ...rulesNow, now: new Date(now + 3 * hourMs) };
      const found = await Promise.all(
        bars.map(async (bar) => ({ ...bar, count: await countOf(bar.filter, inHours) })),
      );
      expect(found).toEqual(bars);
      expect(bars.filter(({ count }) => count > 0).length).toBeGreaterThan(5);
    },
  );

  it("the tested fleet has every state, drift and export", async () => {
    const { summary } = await get<FleetHealthReport>("?limit=1");
    expect(Object.entries(summary.by_state).filter(([, count]) => count === 0)).toEqual([]);
    const { drift, exports } = await get<FleetFacets>("/facets");
    const counts = [...drift.map(({ count }) => count), ...Object.values(exports)];
    expect(counts.filter((count) => count === 0)).toEqual([]);
    // The triggers must have brought the tables to the view's state.
    expect(await fleetDifferences(test.db)).toEqual([]);
  });
});
