/** Counts, in a selection and in all hosts, the hosts with each value of a property that hosts may have in common. */
import { sql } from "drizzle-orm";
import { mapValues } from "#kit/map-values.ts";
import type { FactorKind } from "#proto/fleet-health/factors.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { Labels } from "#proto/labels.ts";
import type { Executor } from "../database/database.ts";
import { arrayLiteral, uuids } from "../database/statements.ts";
import { always, column, type Expression } from "./columns/expression.ts";
import { hostsOf } from "./conditions.ts";
import type { CountedSources, HostSources } from "./host-sources.ts";
import { fleetPredicate, ofRecentDays } from "./predicate.ts";
import { maskHosts } from "./resident-selection.ts";
import {
  type CountsByValue,
  type HostCounts,
  selectHosts,
  type ViewedFleet,
} from "./select-hosts.ts";

/** The hosts that have a value. */
export interface CountedFactor extends HostCounts<"selected"> {
  kind: FactorKind;
  value: string;
}

/** Counts of a selection and of all hosts. */
interface FactorCounts extends HostCounts<"selected"> {
  /** Core still reads the hosts' sources, and has not counted them. */
  readsSources: boolean;
  counts: CountedFactor[];
}

/** The kinds that a column has; a host has several sources. */
type ColumnKind = Exclude<FactorKind, "source">;

/** The column of each kind; labels are counted by set of labels. */
const columnsOf = {
  label: "label_set_id",
  version: "version",
  platform: "platform",
  running_config: "running_config_key",
  desired_config: "desired_config_key",
  drift: "drift",
  core: "core",
  subnet: "subnet",
  policy: "policy_id",
} as const satisfies Readonly<Record<ColumnKind, string>>;

/** Counts by the text of a value in its column. */
type ByValue = CountsByValue<"selected">;

const countSourcesOf = async (
  view: ViewedFleet,
  selected: Expression,
  hostSources: HostSources | null | undefined,
) => {
  const { db, rules, hosts } = view;
  if (hostSources === null) return undefined;
  if (!hosts || !hostSources) return countSources(view, selected);
  return hostSources.count(hosts, await maskHosts(db, hosts, selected), rules.now);
};

/** Counts by a scan of the accounts, which takes a second for 100,000 hosts. */
const countSources = async (
  { db, rules }: ViewedFleet,
  predicate: Expression,
): Promise<CountedSources> => {
  const rows = await db.execute<{ source: string; selected: number; hosts: number }>(sql`
    select source, (count(*) filter (where is_selected))::int as selected, count(*)::int as hosts
    from (select distinct host_id, source from volume_source v where ${ofRecentDays(sql`day`, rules.now)}) sent
    join (select identity, ${predicate} as is_selected from ${hostsOf(rules)} offset 0) host on identity = host_id collate "C"
    group by source`);
  return new Map(rows.map(({ source, selected, hosts }) => [source, { selected, all: hosts }]));
};

/**
 * Counts the hosts of a filter, and all hosts, by each value. Counts sources in memory if `hostSources` are given, and omits them while
 * these are being read, and with null.
 */
export const countFactors = async (
  view: ViewedFleet,
  filter: FleetFilter,
  hostSources?: HostSources | null,
): Promise<FactorCounts> => {
  const { db, rules } = view;
  const selected = fleetPredicate(filter, rules);
  const all = await selectHosts(view, always);
  const [{ totals, by }, sources] = await Promise.all([
    all.count(mapValues(columnsOf, column), { selected }),
    countSourcesOf(view, selected, hostSources),
  ]);
  const { label: bySet, ...others } = by;
  const [policies, labels] = await Promise.all([
    findPolicyNames(db, others.policy),
    countLabelPairs(db, bySet),
  ]);
  const textOf = (kind: ColumnKind, value: string) => {
    if (kind === "policy") return policies.get(value);
    return kind.endsWith("config") ? hashOf(value) : value || undefined;
  };
  const counts: CountedFactor[] = (Object.entries(others) as [ColumnKind, ByValue][]).flatMap(
    ([kind, byValue]) =>
      [...byValue].flatMap(([value, count]) => {
        const text = textOf(kind, value);
        return text === undefined ? [] : [{ kind, value: text, ...count }];
      }),
  );
  for (const [value, count] of sources ?? []) counts.push({ kind: "source", value, ...count });
  return { ...totals, readsSources: sources === undefined, counts: [...counts, ...labels] };
};

/** Returns the first 16 digits of a key's hash; undefined for an unknown hash. */
const hashOf = (key: string) =>
  key === "0" ? undefined : BigInt.asUintN(64, BigInt(key)).toString(16).padStart(16, "0");

const findPolicyNames = async (
  db: Executor,
  byPolicy: ByValue,
): Promise<ReadonlyMap<string, string>> => {
  const rows = await db.execute<{ id: string; name: string }>(
    sql`select id, name from enrollment_policy where id = any(${uuids([...byPolicy.keys()])})`,
  );
  return new Map(rows.map(({ id, name }) => [id, name]));
};

const countLabelPairs = async (db: Executor, bySet: ByValue): Promise<CountedFactor[]> => {
  const rows = await db.execute<{ id: number; labels: Labels }>(
    sql`select id, labels from label_set where id = any(${arrayLiteral([...bySet.keys()])}::int[])`,
  );
  const pairs = new Map<string, HostCounts<"selected">>();
  for (const { id, labels } of rows)
    for (const [key, value] of Object.entries(labels)) {
      const set = bySet.get(String(id)) ?? { selected: 0, all: 0 };
      const pair = `${key}:${value}`;
      const { selected, all } = pairs.get(pair) ?? { selected: 0, all: 0 };
      pairs.set(pair, { selected: selected + set.selected, all: all + set.all });
    }
  return [...pairs].map(([value, count]) => ({ kind: "label", value, ...count }));
};
