import { sql } from "drizzle-orm";
import { facetValuesMax } from "#proto/fleet-health/facets.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { ExportKind } from "#proto/fleet-health/vocabulary.ts";
import type { Database, Executor } from "../database/database.ts";
import { arrayLiteral, readRows } from "../database/statements.ts";
import { column } from "./columns/expression.ts";
import { exportPredicate } from "./predicate.ts";
import { type SelectedHosts, selectHosts, type ViewedFleet } from "./select-hosts.ts";

/** The numbers of hosts with each label, the most frequent keys and values first. */
export interface LabelCounts {
  keys: readonly {
    key: string;
    /** Hosts with any value. */
    count: number;
    values: readonly { value: string; count: number }[];
  }[];
  /** Keys that are not in the list. */
  keysOther: number;
}

/** Counts hosts by label: by set of labels first, of which there are few. */
export const countLabels = async (
  db: Executor,
  hosts: Pick<SelectedHosts, "count">,
): Promise<LabelCounts> => {
  const { by } = await hosts.count({ set: column("label_set_id") }, {});
  const ids = arrayLiteral([...by.set.keys()]);
  const counts = arrayLiteral(Array.from(by.set.values(), ({ all }) => String(all)));
  const rows = await readRows(
    db,
    { key: String, value: String, hosts: Number, keyHosts: Number, keys: Number },
    sql`
    with by_value as (
      select key collate "C" as key, value collate "C" as value, sum(hosts) as hosts
      from unnest(${ids}::int[], ${counts}::int[]) as counted (label_set_id, hosts)
      join label_set on id = label_set_id cross join lateral jsonb_each_text(labels) group by 1, 2
    ), by_key as (
      select *, sum(hosts) over (partition by key) as key_hosts,
        row_number() over (partition by key order by hosts desc, value) as value_rank
      from by_value
    ), ranked as (
      select *, dense_rank() over (order by key_hosts desc, key) as key_rank from by_key
    )
    select key, value, hosts, key_hosts, (select max(key_rank) from ranked) as keys
    from ranked where key_rank <= ${facetValuesMax} and value_rank <= ${facetValuesMax}
    order by key_rank, value_rank`,
  );
  const keys = [...Map.groupBy(rows, ({ key }) => key)].map(([key, values]) => ({
    key,
    count: values[0]?.keyHosts ?? 0,
    values: values.map(({ value, hosts }) => ({ value, count: hosts })),
  }));
  return { keys, keysOther: (rows[0]?.keys ?? 0) - keys.length };
};

/** Keys of labels, in the order of names. */
export interface LabelKeys {
  keys: readonly string[];
  /** Whether hosts have labels with further keys. */
  hasOthers: boolean;
}

/** Finds the most frequent keys of the labels in an export. */
export const findLabelKeys = async (
  view: ViewedFleet,
  filter: FleetFilter,
  kind: ExportKind,
): Promise<LabelKeys> => {
  const hosts = await selectHosts(view, exportPredicate(filter, view.rules, kind));
  const { keys, keysOther } = await countLabels(view.db, hosts);
  return { keys: keys.map(({ key }) => key).toSorted(), hasOthers: keysOther > 0 };
};

const deletedMax = 10_000;

/**
 * Deletes sets of labels that no host has or had in its history, a bounded number, and returns how many. A transaction that gives a host a
 * known set locks the set until its commit: this skips locked sets, and its second statement sees the hosts of those that were unlocked
 * before.
 */
export const deleteUnusedLabelSets = (db: Database): Promise<number> =>
  db.transaction(async (tx) => {
    const unused = sql`id <> 0 and not exists (select from fleet where label_set_id = label_set.id)
      and not exists (select from fleet_history where label_set_id = label_set.id)`;
    const locked = await tx.execute<{ id: number }>(
      sql`select id from label_set where ${unused} limit ${deletedMax} for update skip locked`,
    );
    if (locked.length === 0) return 0;
    const ids = arrayLiteral(locked.map(({ id }) => String(id)));
    const deleted = await tx.execute(
      sql`delete from label_set where id = any(${ids}::integer[]) and ${unused} returning id`,
    );
    return deleted.length;
  });
