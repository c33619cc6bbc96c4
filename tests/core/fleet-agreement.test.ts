import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { dayAt, saveDays } from "../../functions/store/completeness/days.ts";
import { dayMs, hourMs } from "../../kit/clock.ts";
import { byteOfState, incompleteStates } from "../../proto/completeness/hour-note.ts";
import type { FleetFacets } from "../../proto/fleet-health/facets.ts";
import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import type { FleetHealthRow } from "../../proto/fleet-health/row.ts";
import {
  driftKinds,
  exportKinds,
  type Forwarding,
  fleetConditions,
  fleetSeverities,
  fleetSorts,
  fleetStates,
  forwardings,
  severityOf,
} from "../../proto/fleet-health/vocabulary.ts";
import { oddDeviceId, seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { createTestCore } from "../support/core.ts";
import { fleetDifferences } from "../support/fleet-differences.ts";

const test = await createTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
afterAll(() => test.close());
const now = test.clock.now();
await seedFleet(test.db, { count: 320, now: new Date(now) });
const get = async <Body>(path: string) =>
  (await test.api<Body>("GET", `/v1/collector/health${path}`, { as: "auditor" })).body;
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
const fleet = (await get<FleetHealthReport>("?limit=1000")).items;

/** Parameters of a query; `state` may occur more than once. */
type Filter = Partial<Record<string, string | readonly string[]>>;
const queryOf = (filter: Filter) =>
  new URLSearchParams(
    Object.entries(filter).flatMap(([name, value]) =>
      [value ?? []].flat().map((each) => [name, each] as [string, string]),
    ),
  ).toString();

const later = (row: FleetHealthRow) =>
  Math.max(
    ...[row.certificate, row.successor].map((each) => Date.parse(each?.not_after ?? "") || 0),
  );
const has = (row: FleetHealthRow, ...states: string[]) =>
  row.conditions.some(({ state }) => states.includes(state));

const isRecent = (row: FleetHealthRow) => Date.parse(row.last_heartbeat_at ?? "") >= now - 180_000;
/** How a row forwards, by its times and its queue alone; the threshold is five minutes, to the second. */
const forwardingOf = (row: FleetHealthRow): Forwarding | null => {
  if (row.state === "revoked") return null;
  if (row.last_envelope_at === null) return row.last_heartbeat_at === null ? null : "never";
  if (Math.floor(Date.parse(row.last_envelope_at) / 1000) >= Math.floor(now / 1000) - 300)
    return "forwarding";
  return isRecent(row) || (row.queue.bytes ?? 0) > 0 ? "stopped" : null;
};

function needsAttention(row: FleetHealthRow): boolean {
  return fleetSeverities.indexOf(severityOf(row)) < fleetSeverities.indexOf("enrolling");
}
/** Whether a row matches each parameter, decided from the row's fields alone. */
const meanings: Record<string, (row: FleetHealthRow, value: string) => boolean> = {
  q: ({ device_id, identity, platform, version }, text) =>
    [device_id, identity, platform, version].some((field) =>
      field.toLowerCase().includes(text.toLowerCase()),
    ),
  device: (row, device) => row.device_id === device,
  platform: (row, platform) => row.platform === platform,
  version: (row, version) => row.version === version,
  not_version: (row, version) => row.version !== version,
  label: (row, pair) => hasLabel(row, pair),
  not_label: (row, pair) => !hasLabel(row, pair),
  drift: (row, drift) => row.config.drift === drift,
  desired_config: (row, hash) => row.config.desired_config_hash?.startsWith(hash) ?? false,
  running_config: (row, hash) => row.config.running_config_hash?.startsWith(hash) ?? false,
  not_running_config: (row, hash) => !row.config.running_config_hash?.startsWith(hash),
  attention: needsAttention,
  heartbeat: (row, kind) =>
    kind === "never" ? row.last_heartbeat_at === null : row.state !== "revoked" && isRecent(row),
  condition: (row, condition) => has(row, condition),
  forwarder: (row, kind) => row.forwarder?.connected === (kind === "connected"),
  forwarding: (row, what) => forwardingOf(row) === what,
  heartbeat_older_than_seconds: (row, age) =>
    row.last_heartbeat_at !== null && Date.parse(row.last_heartbeat_at) < now - Number(age) * 1000,
  expires_within_seconds: (row, within) => later(row) <= now + Number(within) * 1000,
};
/** Since when a row is in its state: by its first condition, or by what it last forwarded. */
const beganAt = (row: FleetHealthRow): number => {
  const since = row.conditions[0]?.since;
  if (since !== undefined) return Date.parse(since);
  if (row.forwarding === "stopped")
    return Math.floor(Date.parse(row.last_envelope_at ?? "") / 1000) * 1000;
  return row.forwarding === "never" ? Date.parse(row.enrolled_at) : 0;
};
/** The values by which a page is sorted; an envelope's time counts to the second. */
const sortValues: Record<string, (row: FleetHealthRow) => string | number> = {
  identity: (row) => row.identity,
  severity: (row) => fleetSeverities.indexOf(severityOf(row)) * 1e13 + beganAt(row),
  last_heartbeat_at: (row) => Date.parse(row.last_heartbeat_at ?? "") || 0,
  last_envelope_at: (row) => Math.floor((Date.parse(row.last_envelope_at ?? "") || 0) / 1000),
  certificate_not_after: (row) => Date.parse(row.certificate.not_after),
  queue_bytes: (row) => row.queue.bytes ?? -1,
  incomplete_hours: (row) => row.incomplete_hours ?? 0,
};
const exported: Record<string, (row: FleetHealthRow) => boolean> = {
  stale: (row) => has(row, "stale"),
  queue_risk: (row) => has(row, "queue_at_risk"),
  renewal_failures: (row) => has(row, "renewal_failed"),
  config_drift: (row) => ["drifted", "on_last_known_good"].includes(row.config.drift),
};
/** `env:prod`, or `env:*` for any value. */
const hasLabel = ({ labels }: FleetHealthRow, pair: string): boolean => {
  const [key = "", value] = pair.split(":");
  return value === "*" ? labels[key] !== undefined : labels[key] === value;
};
const matches = (row: FleetHealthRow, { state, ...rest }: Filter) =>
  (state === undefined || state.includes(row.state)) &&
  Object.entries(rest).every(([name, value]) => meanings[name]?.(row, String(value)) ?? true);

/** The whole hash, odd and even beginnings of it, and none of the fleet's. */
const hashes = fleet
  .flatMap(({ config }) => config.desired_config_hash ?? [])
  .slice(0, 1)
  .flatMap((hash) => [hash, hash.slice(0, 6), hash.slice(0, 7), "0".repeat(64)]);

const values: Record<string, fc.Arbitrary<string | readonly string[]>> = {
  state: fc.subarray([...fleetStates], { minLength: 1 }),
  q: fc.constantFrom(
    "host-1",
    "HOST",
    "dc-3",
    "%",
    "_",
    "\\",
    "odd%_\\",
    "amd",
    "1.1",
    "0.9.0",
    "/",
    "nothing",
    "\u{1f600}",
  ),
  attention: fc.constant("needed"),
  device: fc.constantFrom("host-7", `${oddDeviceId}97`, "none"),
  platform: fc.constantFrom("linux/amd64", "darwin/arm64"),
  version: fc.constantFrom("1.4.0", "1.11.0", "latest"),
  not_version: fc.constantFrom("1.4.0", "latest"),
  label: fc.constantFrom("env:prod", "team:web", "region:*", "env:none"),
  not_label: fc.constantFrom("env:prod", "team:*", "none:*"),
  drift: fc.constantFrom(...driftKinds),
  desired_config: fc.constantFrom(...hashes),
  running_config: fc.constantFrom(...hashes),
  not_running_config: fc.constantFrom(...hashes),
  heartbeat: fc.constantFrom("recent", "never"),
  condition: fc.constantFrom(...fleetConditions),
  forwarder: fc.constantFrom("connected", "disconnected"),
  forwarding: fc.constantFrom(...forwardings),
  heartbeat_older_than_seconds: fc.constantFrom("0", "30", "180", "86400"),
  expires_within_seconds: fc.constantFrom("0", "86400", "1000000"),
};
const filters: fc.Arbitrary<Filter> = fc
  .subarray(Object.keys(values), { maxLength: 4 })
  .chain((names) =>
    fc.record(Object.fromEntries(names.map((name) => [name, values[name] ?? fc.constant("")]))),
  );

it("a row counts the incomplete hours of the last day, those that began before it left out", () => {
  for (const row of fleet)
    expect(row.incomplete_hours, row.identity).toBe(incompleteHours.get(row.identity) ?? null);
  expect(new Set(incompleteHours.values()).size).toBeGreaterThan(4);
});

describe("under any filter", () => {
  it("pages, summary, facets and the four exports agree with each other and with the rows", async () => {
    const property = fc.asyncProperty(
      filters,
      fc.constantFrom(...fleetSorts),
      fc.constantFrom("asc", "desc"),
      fc.integer({ min: 40, max: 300 }),
      async (filter, sort, order, limit) => {
        const query = queryOf(filter);
        const expected = fleet
          .filter((row) => matches(row, filter))
          .map((row) => row.identity_id)
          .sort();
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

        const { state: _, ...anyState } = filter;
        const counted = fleet.filter((row) => matches(row, anyState));
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

  it("finds exactly the rows of each state", async () => {
    for (const state of fleetStates) {
      const { items } = await get<FleetHealthReport>(`?limit=1000&state=${state}`);
      expect(items).toEqual(fleet.filter((row) => row.state === state));
    }
  });

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
