import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { createFacetCounts, type FacetCounts } from "#functions/domain/fleet/count-facets.ts";
import { resource } from "#functions/http/resource.ts";
import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import { dayMs } from "#kit/clock.ts";
import { expiryDays, FleetFacets } from "#proto/fleet-health/facets.ts";
import { filterFromQuery, filterQuery, PastTime } from "#proto/fleet-health/filter.ts";
import { pastMarkOf, thresholdsView } from "./row.ts";

/** The route that counts hosts per value, and rows per export. */
export const facetReports = (core: ReadCore) => {
  const countFacets = createFacetCounts(core);
  return resource(core, "/v1/collector/health", ({ get }) => ({
    countFleetHealth: get(
      "/facets",
      "Counts by version, platform, label, drift, heartbeat age, certificate expiry and export, under the report's filters",
      {
        query: filterQuery({ at: v.optional(PastTime) }),
        returns: ["The counts", FleetFacets],
        problems: ["no_history", "filter_without_history"],
        handle: async ({ query }) => {
          const { rules, counts } = await countFacets({
            filter: filterFromQuery(query),
            at: query.at,
          });
          return facetsView(rules, counts);
        },
      },
    ),
  }));
};

const facetsView = (rules: FleetRules, counts: FacetCounts): FleetFacets => {
  const { now, thresholds } = rules;
  const { versions, platforms } = counts;
  return {
    generated_at: now.toISOString(),
    ...pastMarkOf(rules),
    thresholds: thresholdsView(thresholds),
    total: counts.total,
    versions: versions.named.map(({ value, all, unsupported }) => ({
      version: value,
      count: all,
      supported: unsupported === 0,
    })),
    versions_other: versions.other,
    platforms: platforms.named.map(({ value, all }) => ({ platform: value, count: all })),
    platforms_other: platforms.other,
    labels: counts.labels.keys.map(({ key, count, values }) => ({
      key,
      count,
      values: values.map((each) => ({ value: each.value, count: each.count })),
      values_other: values.reduce((left, each) => left - each.count, count),
    })),
    label_keys_other: counts.labels.keysOther,
    drift: [...counts.drift],
    heartbeat_age: {
      never: counts.heartbeatNever,
      buckets: counts.heartbeatAges.map(ageView),
    },
    certificate_expiry: {
      expired: counts.expiries[0] ?? 0,
      days: Array.from({ length: expiryDays }, (_, day) => ({
        day,
        from: daysAfter(now, day),
        to: daysAfter(now, day + 1),
        count: counts.expiries[day + 1] ?? 0,
      })),
      later: counts.expiries[expiryDays + 1] ?? 0,
    },
    exports: counts.exports,
  };
};

const ageView = ({ fromSeconds, toSeconds, count }: FacetCounts["heartbeatAges"][number]) => ({
  from_seconds: fromSeconds,
  to_seconds: toSeconds,
  count,
});

const daysAfter = (at: Date, days: number) => new Date(at.getTime() + days * dayMs).toISOString();
