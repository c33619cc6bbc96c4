import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { createFacetCounts } from "#functions/domain/fleet/count-facets.ts";
import { resource } from "#functions/http/resource.ts";
import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import type { FleetCounts } from "#functions/store/fleet/facets.ts";
import { dayMs } from "#kit/clock.ts";
import {
  expiryDays,
  FleetFacets,
  facetValuesMax,
  heartbeatAgeBounds,
} from "#proto/fleet-health/facets.ts";
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

const facetsView = (rules: FleetRules, counts: FleetCounts): FleetFacets => {
  const { now, thresholds, unsupportedVersions } = rules;
  const versions = mostFrequent(counts.versions);
  const platforms = mostFrequent(counts.platforms);
  return {
    generated_at: now.toISOString(),
    ...pastMarkOf(rules),
    thresholds: thresholdsView(thresholds),
    total: counts.total,
    versions: versions.named.map(([version, count]) => ({
      version,
      count,
      supported: !unsupportedVersions.includes(version),
    })),
    versions_other: versions.other,
    platforms: platforms.named.map(([platform, count]) => ({ platform, count })),
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
      buckets: rules.past
        ? knownAges(ageBuckets(counts), thresholds.staleAfterSeconds)
        : ageBuckets(counts),
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

type AgeBucket = FleetFacets["heartbeat_age"]["buckets"][number];

const ageBuckets = ({ heartbeatAges }: FleetCounts): AgeBucket[] =>
  heartbeatAgeBounds.map((from, index) => ({
    from_seconds: from,
    to_seconds: heartbeatAgeBounds[index + 1] ?? null,
    count: heartbeatAges[index] ?? 0,
  }));

/** Merges the buckets below the threshold: history keeps no age of heartbeats newer than it. */
const knownAges = (buckets: readonly AgeBucket[], staleAfterSeconds: number): AgeBucket[] => {
  const recent = buckets.filter(({ from_seconds }) => from_seconds < staleAfterSeconds);
  const count = recent.reduce((sum, bucket) => sum + bucket.count, 0);
  const to = recent.at(-1)?.to_seconds ?? null;
  return [{ from_seconds: 0, to_seconds: to, count }, ...buckets.slice(recent.length)];
};

const daysAfter = (at: Date, days: number) => new Date(at.getTime() + days * dayMs).toISOString();

/** Returns the most frequent values, by count and then by name, and the number of rows with other values. */
const mostFrequent = (counts: FleetCounts["versions"]) => {
  const sorted = [...counts]
    .map(([value, { all }]) => [value, all] as const)
    .sort(([a, countA], [b, countB]) => countB - countA || (a < b ? -1 : 1));
  const other = sorted.slice(facetValuesMax).reduce((sum, [, count]) => sum + count, 0);
  return { named: sorted.slice(0, facetValuesMax), other };
};
