import { type SQL, sql } from "drizzle-orm";
import { expiryDays, heartbeatAgeBounds } from "#proto/fleet-health/facets.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import {
  type Drift,
  driftKinds,
  type ExportKind,
  exportKinds,
} from "#proto/fleet-health/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import { countMarks } from "./columns/column-loops.ts";
import { bucket, choose, column, constant, type Expression } from "./columns/expression.ts";
import type { FleetColumns } from "./columns/fleet-columns.ts";
import { countByName, countByNumber, type MarkedHosts, markHosts } from "./columns/select-hosts.ts";
import { countLabels, type LabelCounts, labelSetsOf } from "./labels.ts";
import { exportPredicate, fleetPredicate } from "./predicate.ts";
import { type FleetRules, hasHeartbeat, hostsOf } from "./rows.ts";

/** Counts of the fleet under a filter, including its states. */
export interface FleetCounts {
  total: number;
  versions: ReadonlyMap<string, number>;
  platforms: ReadonlyMap<string, number>;
  labels: LabelCounts;
  drift: ReadonlyMap<Drift, number>;
  heartbeatNever: number;
  /** By index in `heartbeatAgeBounds`. */
  heartbeatAges: readonly number[];
  expired: number;
  /** By day from now. */
  expiryByDay: readonly number[];
  expiringLater: number;
  exports: Readonly<Record<ExportKind, number>>;
}

const daySeconds = 86_400;
const neverBucket = -1;

/**
 * Counts the rows of a filter by all dimensions of the report, in core's memory if `columns` have the hosts, otherwise in two concurrent
 * scans.
 */
export const countFleet = async (
  db: Executor,
  rules: FleetRules,
  filter: FleetFilter,
  columns?: FleetColumns,
): Promise<FleetCounts> => {
  const where = fleetPredicate(filter, rules);
  const marked = await markHosts(db, columns, where);
  const [{ facets, totals }, labels] = await Promise.all(
    marked
      ? [countMarked(marked, rules), countLabels(db, countLabelSets(marked))]
      : [
          countBy(db, rules, where, { ...dimensions, ...bucketsOf(rules) }),
          countLabels(db, labelSetsOf(where, rules)),
        ],
  );
  const bounds = heartbeatAgeBounds.length;
  const { heartbeat_age: ages, expiry_day: days } = facets;
  return {
    total: totals.total,
    versions: facets.version,
    platforms: facets.platform,
    labels,
    drift: new Map(driftKinds.map((kind) => [kind, facets.drift.get(kind) ?? 0])),
    heartbeatNever: ages.get(String(neverBucket)) ?? 0,
    // The database numbers buckets from the oldest.
    heartbeatAges: heartbeatAgeBounds.map((_, index) => ages.get(String(bounds - 1 - index)) ?? 0),
    expired: days.get("0") ?? 0,
    expiryByDay: Array.from({ length: expiryDays }, (_, day) => days.get(String(day + 1)) ?? 0),
    expiringLater: days.get(String(expiryDays + 1)) ?? 0,
    exports: totals,
  };
};

const dimensions = {
  version: column("version"),
  platform: column("platform"),
  drift: column("drift"),
};

/** A bucket is the number of bounds that a value reaches: the bounds are the timestamps at which an age or a day ends. */
const bucketsOf = ({ now }: FleetRules) => {
  const bounds = (seconds: readonly number[]) => seconds.map((each) => now.getTime() + each * 1000);
  const agesFrom = bounds(
    heartbeatAgeBounds
      .slice(1)
      .toReversed()
      .map((seconds) => -seconds),
  );
  // A certificate that expires now has expired: days begin one millisecond, the precision of timestamps, later.
  const daysFrom = bounds(
    Array.from({ length: expiryDays + 1 }, (_, day) => day * daySeconds + 0.001),
  );
  return {
    heartbeat_age: choose(
      [[hasHeartbeat, bucket(column("last_heartbeat_at"), agesFrom)]],
      constant(neverBucket),
    ),
    expiry_day: bucket(column("expired_from"), daysFrom),
  };
};

const countLabelSets = ({ numbers }: MarkedHosts): SQL => {
  const counts = countByNumber(numbers(column("label_set_id")));
  const [ids, hosts] = [[...counts.keys()], [...counts.values()]].map(
    (each) => `{${each.join(",")}}`,
  );
  return sql`select * from unnest(${ids}::int[], ${hosts}::int[]) as counted (label_set_id, hosts)`;
};

const countMarked = (marked: MarkedHosts, rules: FleetRules) => {
  const { heartbeat_age, expiry_day } = bucketsOf(rules);
  const byBucket = (bucket: Expression) =>
    new Map(
      [...countByNumber(marked.numbers(bucket))].map(([at, count]) => [String(at), count] as const),
    );
  const exported = (kind: ExportKind) => countMarks(marked.mark(exportPredicate(kind, rules)));
  return {
    facets: {
      version: countByName(marked, "version"),
      platform: countByName(marked, "platform"),
      drift: countByName(marked, "drift"),
      heartbeat_age: byBucket(heartbeat_age),
      expiry_day: byBucket(expiry_day),
    },
    totals: {
      total: marked.places.length,
      stale: exported("stale"),
      queue_risk: exported("queue_risk"),
      renewal_failures: exported("renewal_failures"),
      config_drift: exported("config_drift"),
    },
  };
};

/**
 * Counts the rows by each value of each dimension, and those of each export. Groups by all dimensions together first, with one lookup for
 * each row instead of one for each row and dimension.
 */
const countBy = async <Name extends string>(
  db: Executor,
  rules: FleetRules,
  where: Expression,
  by: Record<Name, Expression>,
): Promise<{
  facets: Record<Name, Map<string, number>>;
  totals: Record<ExportKind | "total", number>;
}> => {
  const names = Object.keys(by) as Name[];
  const columns = names.map((name) => sql`${by[name]} as ${sql.identifier(name)}`);
  const identifiers = names.map((name) => sql.identifier(name));
  const exported = exportKinds.map(
    (kind) =>
      sql`count(*) filter (where ${exportPredicate(kind, rules)}) as ${sql.identifier(kind)}`,
  );
  const sums = (["total", ...exportKinds] as const).map(
    (name) => sql`coalesce(sum(${sql.identifier(name)}), 0)::int as ${sql.identifier(name)}`,
  );
  type Counted = Record<string, string | number | null> &
    Record<ExportKind | "total" | "mask", number>;
  const rows = await db.execute<Counted>(sql`
    select ${sql.join(identifiers, sql`, `)}, grouping(${sql.join(identifiers, sql`, `)}) as mask, ${sql.join(sums, sql`, `)}
    from (
      select ${sql.join(columns, sql`, `)}, count(*) as total, ${sql.join(exported, sql`, `)}
      from ${hostsOf(rules)} where ${where} group by ${sql.raw(names.map((_, index) => index + 1).join(", "))}
    ) counted
    group by grouping sets (${sql.join([...identifiers.map((name) => sql`(${name})`), sql`()`], sql`, `)})`);
  // The mask has a bit for each dimension that the row does not count; the lowest bit is the last dimension.
  const every = 2 ** names.length - 1;
  const counts = names.map((name, index) => {
    const own = every - 2 ** (names.length - 1 - index);
    const values = rows
      .filter(({ mask }) => mask === own)
      .map((row) => [String(row[name]), row.total] as const);
    return [name, new Map(values)] as const;
  });
  const totals = rows.find(({ mask }) => mask === every);
  if (totals === undefined) throw new Error("the count returned no total");
  return { facets: Object.fromEntries(counts) as Record<Name, Map<string, number>>, totals };
};
