/** Counts, in a selection and in all hosts, the hosts with each value of a property that hosts may have in common. */
import { sql } from "drizzle-orm";
import { LRUCache } from "lru-cache";
import { type Clock, dayMs } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import type { FactorKind } from "#proto/fleet-health/factors.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { Labels } from "#proto/labels.ts";
import type { Executor } from "../database/database.ts";
import { arrayLiteral } from "../database/statements.ts";
import { always, column, type Expression } from "./columns/expression.ts";
import { idAt, idBytes } from "./columns/packed-rows.ts";
import type { ResidentHosts } from "./columns/resident-hosts.ts";
import { fleetPredicate, ofRecentDays } from "./predicate.ts";
import { maskHosts } from "./resident-selection.ts";
import { hostsOf } from "./rows.ts";
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

/** The number of hosts with a source, in a selection and in all. */
type CountedSources = Map<string, HostCounts<"selected">>;

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

/** The sources of the hosts in core's memory. */
interface HostSources {
  /**
   * Counts the sources at a time, of all hosts of a view and of the selected ones; undefined until they are read, which the first call
   * starts.
   */
  count(view: ResidentHosts, isSelected: Uint8Array, time: Date): CountedSources | undefined;
}

/** The set of each host by its index, and the sources of each set, of which a fleet has few; 0 is none. */
interface SourceSets {
  setOf: Uint32Array;
  sets: (readonly string[])[];
}

/** The sources of a day, once they are read. `error`: the last read failed; the next call throws it. */
interface KnownDay {
  known?: SourceSets;
  error?: unknown;
  isReading: boolean;
  readAt: number;
}

/** Accounts arrive once an hour. */
const keptMs = 300_000;
/** Days in memory: the present one, and a past one. */
const daysMax = 2;

/** Creates the sources, unread at first. Reads them again periodically, and frees them with their hosts. */
export const createHostSources = ({
  db,
  clock,
}: {
  db: Executor;
  clock: Pick<Clock, "monotonic">;
}): HostSources => {
  const daysOfHosts = new WeakMap<ResidentHosts["ids"], LRUCache<number, KnownDay>>();
  const createDays = () =>
    new LRUCache<number, KnownDay>({
      max: daysMax,
      memoMethod: () => ({ isReading: false, readAt: Number.NEGATIVE_INFINITY }),
    });
  const find = (view: ResidentHosts, day: number): KnownDay => {
    const days = daysOfHosts.get(view.ids) ?? createDays();
    daysOfHosts.set(view.ids, days);
    return days.memo(day);
  };
  const read = async (own: KnownDay, view: ResidentHosts, time: Date) => {
    own.isReading = true;
    own.readAt = clock.monotonic();
    try {
      own.known = await readSets(db, view, time);
    } catch (error) {
      own.error = error;
      // The call after the one that throws it reads again.
      own.readAt = Number.NEGATIVE_INFINITY;
    }
    own.isReading = false;
  };
  return {
    count(view, isSelected, time) {
      const own = find(view, Math.floor(time.getTime() / dayMs));
      if (own.error !== undefined) {
        const { error } = own;
        own.error = undefined;
        throw error;
      }
      if (!own.isReading && clock.monotonic() - own.readAt > keptMs) void read(own, view, time);
      return own.known && countSets(own.known, isSelected);
    },
  };
};

const countSets = ({ setOf, sets }: SourceSets, isSelected: Uint8Array): CountedSources => {
  const selected = new Uint32Array(sets.length);
  const all = new Uint32Array(sets.length);
  // Hosts that have enrolled since have none yet.
  const count = Math.min(isSelected.length, setOf.length);
  for (let place = 0; place < count; place++) {
    const set = setOf[place] as number;
    selected[set] = (selected[set] as number) + (isSelected[place] as number);
    all[set] = (all[set] as number) + 1;
  }
  const counted: CountedSources = new Map();
  for (const [set, sources] of sets.entries())
    for (const source of sources) {
      const sum = counted.get(source) ?? { selected: 0, all: 0 };
      counted.set(source, {
        selected: sum.selected + (selected[set] as number),
        all: sum.all + (all[set] as number),
      });
    }
  return counted;
};

/** Hosts of a read: each batch occupies core for some milliseconds. */
const batchHosts = 5000;

/** The hosts of a set in a batch. */
interface SetRow extends Record<string, unknown> {
  sources: string[];
  ids: Uint8Array;
  /** The last host of a full batch. */
  next: string | null;
}

const readSets = async (db: Executor, view: ResidentHosts, time: Date): Promise<SourceSets> => {
  const setOf = new Uint32Array(view.ids.length);
  const sets: (readonly string[])[] = [[]];
  const numbers = new Map<string, number>();
  const recent = ofRecentDays(sql`day`, time);
  const known = await db.execute(sql`select from volume_source where ${recent} limit 1`);
  for (let after: string | null = known.length === 0 ? null : ""; after !== null; ) {
    const rows: SetRow[] = await db.execute<SetRow>(sql`
      select sources, string_agg(uuid_send(identity_id), ''::bytea) as ids,
        case when sum(count(*)) over () = ${batchHosts} then max(max(identity)) over () end as next
      from (select identity_id, identity, array(select distinct source from volume_source v
          where host_id = identity collate "default" and ${recent} order by source) as sources
        from fleet_status where identity > ${after} order by identity limit ${batchHosts}) host
      group by sources`);
    for (const { sources, ids } of rows) {
      if (sources.length === 0) continue;
      const key = JSON.stringify(sources);
      const number = numbers.get(key) ?? sets.push(sources) - 1;
      numbers.set(key, number);
      for (let at = 0; at < ids.length; at += idBytes) {
        const place = view.placeOf(idAt(ids, at));
        if (place !== undefined) setOf[place] = number;
      }
    }
    after = rows[0]?.next ?? null;
  }
  return { setOf, sets };
};

/**
 * Counts the hosts of a filter, and all hosts, by each value. Counts sources in memory if `hostSources` are given, and omits them while
 * these are being read.
 */
export const countFactors = async (
  view: ViewedFleet,
  filter: FleetFilter,
  hostSources?: HostSources,
): Promise<FactorCounts> => {
  const { db, rules, hosts } = view;
  const selected = fleetPredicate(filter, rules);
  const all = await selectHosts(view, always);
  const [{ totals, by }, sources] = await Promise.all([
    all.count(mapValues(columnsOf, column), { selected }),
    hosts && hostSources
      ? maskHosts(db, hosts, selected).then((mask) => hostSources.count(hosts, mask, rules.now))
      : countSources(view, selected),
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
    sql`select id, name from enrollment_policy where id = any(${arrayLiteral([...byPolicy.keys()])}::uuid[])`,
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
