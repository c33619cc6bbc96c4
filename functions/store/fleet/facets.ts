import { dayMs } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import { expiryDays, heartbeatAgeBounds } from "#proto/fleet-health/facets.ts";
import { exportFilters, type FleetFilter } from "#proto/fleet-health/filter.ts";
import { type Drift, driftKinds, type ExportKind } from "#proto/fleet-health/vocabulary.ts";
import { bucket, choose, column, constant } from "./columns/expression.ts";
import { conditionPredicate, type FleetRules, hasHeartbeat } from "./conditions.ts";
import { countLabels, type LabelCounts } from "./labels.ts";
import { fleetPredicate } from "./predicate.ts";
import { type CountsByValue, selectHosts, type ViewedFleet } from "./select-hosts.ts";

/** Counts of the fleet under a filter, including its states. */
export interface FleetCounts {
  total: number;
  exports: Readonly<Record<ExportKind, number>>;
  versions: CountsByValue<"unsupported">;
  platforms: CountsByValue<"unsupported">;
  labels: LabelCounts;
  drift: readonly { drift: Drift; count: number }[];
  heartbeatNever: number;
  /** By index in `heartbeatAgeBounds`. */
  heartbeatAges: readonly number[];
  /** `[expired, in the first day from now, …, in the last, later]`. */
  expiries: readonly number[];
}

/** Counts the hosts of a filter by all dimensions of the report; in the database by three concurrent scans. */
export const countFleet = async (view: ViewedFleet, filter: FleetFilter): Promise<FleetCounts> => {
  const { db, rules } = view;
  const hosts = await selectHosts(view, fleetPredicate(filter, rules));
  const exports = mapValues(exportFilters, (exported) => fleetPredicate(exported, rules));
  // Apart: exports are not counted by each value of each dimension.
  const [{ by }, { totals }, labels] = await Promise.all([
    hosts.count(dimensionsOf(rules), {
      unsupported: conditionPredicate("unsupported_version", rules),
    }),
    hosts.count({}, exports),
    countLabels(db, hosts),
  ]);
  const count = (counts: CountsByValue<"unsupported">, value: string | number) =>
    counts.get(String(value))?.all ?? 0;
  const { all: total, ...byExport } = totals;
  return {
    total,
    exports: byExport,
    versions: by.version,
    platforms: by.platform,
    labels,
    drift: driftKinds.map((drift) => ({ drift, count: count(by.drift, drift) })),
    heartbeatNever: count(by.heartbeatAge, neverBucket),
    heartbeatAges: heartbeatAgeBounds.map((_, age) => count(by.heartbeatAge, newestBucket - age)),
    expiries: Array.from({ length: expiryDays + 2 }, (_, day) => count(by.expiryDay, day)),
  };
};

const neverBucket = -1;
const newestBucket = heartbeatAgeBounds.length - 1;

/**
 * A bucket is the number of bounds that a time has reached, so times in bucket 0 are the oldest.
 * - The bounds of heartbeats are the times that lie the ages of `heartbeatAgeBounds` back.
 * - The bounds of expiries are now and the ends of the days that follow.
 */
const dimensionsOf = ({ now }: FleetRules) => {
  const ages = heartbeatAgeBounds.slice(1).toReversed();
  const agesFrom = ages.map((seconds) => now.getTime() - seconds * 1000);
  // A certificate that expires now has expired: days begin one millisecond, the precision of timestamps, later.
  const daysFrom = Array.from(
    { length: expiryDays + 1 },
    (_, day) => now.getTime() + day * dayMs + 1,
  );
  return {
    version: column("version"),
    platform: column("platform"),
    drift: column("drift"),
    heartbeatAge: choose(
      [[hasHeartbeat, bucket(column("last_heartbeat_at"), agesFrom)]],
      constant(neverBucket),
    ),
    expiryDay: bucket(column("expired_from"), daysFrom),
  };
};
