import { type SQL, sql } from "drizzle-orm";
import { type InventoryStatus, inventoryStatuses } from "#proto/fleet-health/vocabulary.ts";
import {
  type InventoryHost,
  type InventoryItem,
  inventoryChangesMax,
} from "#proto/inventory/inventory.ts";
import type { Executor } from "../database/database.ts";
import {
  asDate,
  asIs,
  type Paged,
  type PageRequest,
  paged,
  type RowOf,
  readRow,
  readRows,
  readScalar,
  texts,
  timestamptz,
} from "../database/statements.ts";
import type { FleetRules } from "../fleet/conditions.ts";
import { inventoryPredicate, namedHosts } from "../fleet/inventory-status.ts";

/** The inventory as last stored. */
export type InventoryRow = RowOf<typeof storedInventory>;
const storedInventory = {
  /** In lowercase hex. */
  sha256: String,
  hosts: Number,
  updatedAt: asDate,
};

/** Finds the inventory; undefined if none was ever put. */
export const findInventory = (db: Executor): Promise<InventoryRow | undefined> =>
  readRow(
    db,
    storedInventory,
    sql`select encode(sha256, 'hex') as sha256, hosts, updated_at from inventory`,
  );

/** Finds the inventory and locks it against changes until the transaction ends. Readers do not wait. */
export const lockInventory = async (tx: Executor): Promise<InventoryRow | undefined> => {
  await tx.execute(sql`lock table inventory in share row exclusive mode`);
  return findInventory(tx);
};

/** The numbers of hosts that a new inventory adds, changes and removes, and the first of their names. */
export type InventoryChanges = Record<
  "added" | "changed" | "removed",
  { hosts: number; names: string[] }
>;

/** Returns the hosts as the relation `given`. */
const relationOf = (hosts: readonly InventoryHost[]): SQL => {
  const names = texts(hosts.map(({ name }) => name));
  const owners = texts(hosts.map(({ owner }) => owner ?? ""));
  const labels = texts(hosts.map((host) => JSON.stringify(host.labels)));
  return sql`(select name collate "C" as name, nullif(owner, '') as owner, labels::jsonb as labels
    from unnest(${names}, ${owners}, ${labels}) as line (name, owner, labels)) given`;
};

/** Finds what a new inventory changes. */
export const compareInventory = async (
  db: Executor,
  hosts: readonly InventoryHost[],
): Promise<InventoryChanges> => {
  const rows = await readRows(
    db,
    { change: asIs<keyof InventoryChanges>, hosts: Number, names: asIs<string[]> },
    sql`
    select change, count(*) as hosts, to_json((array_agg(name order by name))[1:${inventoryChangesMax}::int]) as names
    from (
      select coalesce(given.name, known.name) as name,
        case when known.name is null then 'added' when given.name is null then 'removed' else 'changed' end as change
      from ${relationOf(hosts)} full join (select * from inventory_host where removed_at is null) known on known.name = given.name
      where known.name is null or (given.owner, given.labels) is distinct from (known.owner, known.labels)
    ) compared group by change`,
  );
  const changesOf = (change: keyof InventoryChanges) => {
    const { hosts = 0, names = [] } = rows.find((row) => row.change === change) ?? {};
    return { hosts, names };
  };
  return {
    added: changesOf("added"),
    changed: changesOf("changed"),
    removed: changesOf("removed"),
  };
};

/** Replaces the inventory. Of the hosts that it no longer has, keeps those that are enrolled. */
export const replaceInventory = async (
  tx: Executor,
  hosts: readonly InventoryHost[],
  { sha256, updatedAt }: { sha256: string; updatedAt: Date },
) => {
  const at = timestamptz(updatedAt);
  const names = sql`unnest(${texts(hosts.map(({ name }) => name))})`;
  await tx.execute(sql`
    with removed as materialized (
      select name, exists (select from fleet_host where device_id = name) or exists (select from fleet_host where identity = name) as is_enrolled
      from (select name from inventory_host except select ${names}) gone),
    marked as (update inventory_host n set removed_at = ${at} from removed where n.name = removed.name and is_enrolled and removed_at is null)
    delete from inventory_host n using removed where n.name = removed.name and not is_enrolled`);
  await tx.execute(sql`
    insert into inventory_host as n (name, owner, labels) select name, owner, labels from ${relationOf(hosts)}
    on conflict (name) do update set owner = excluded.owner, labels = excluded.labels, removed_at = null
    where (n.owner, n.labels) is distinct from (excluded.owner, excluded.labels) or n.removed_at is not null`);
  await tx.execute(sql`
    insert into inventory (sha256, hosts, updated_at) values (decode(${sha256}, 'hex'), ${hosts.length}::int, ${at})
    on conflict (singleton) do update set sha256 = excluded.sha256, hosts = excluded.hosts, updated_at = excluded.updated_at`);
};

const isMissing = sql`removed_at is null and not exists (select from fleet_host where device_id = name)
  and not exists (select from fleet_host where identity = name)`;

const hostsOf = (status: InventoryStatus, rules: FleetRules): SQL => {
  const columns = sql`${status}::text as status, owner, labels`;
  if (status === "missing")
    return sql`select name, ${columns}, null::uuid as identity_id, null::text as identity from inventory_host where ${isMissing}`;
  const ofFleet = sql`from fleet where ${inventoryPredicate(status, rules)}`;
  return status === "unexpected"
    ? sql`select device_id as name, ${status}::text as status, null::text as owner, '{}'::jsonb as labels, identity_id, identity ${ofFleet}`
    : sql`select name, ${columns}, identity_id, identity from ${namedHosts}
        where (removed_at is null) = ${status === "expected"} and identity_id in (select identity_id ${ofFleet})`;
};

/** Which hosts of inventory and fleet are listed; an empty text is in every name. */
export interface WantedHosts {
  statuses: readonly InventoryStatus[];
  text: string;
}

/** Finds a page of wanted hosts, by name, and by identity where several share a name; by severity, the hosts of a worse status first. */
export const listInventory = async (
  db: Executor,
  { statuses, text }: WantedHosts,
  rules: FleetRules,
  { after, limit, sort }: PageRequest,
): Promise<Paged<InventoryItem>> => {
  const [name, identity, worst] = after === null ? [] : (JSON.parse(after) as string[]);
  const parts = statuses.map((status) => hostsOf(status, rules));
  const rankOf = (status: SQL) =>
    sort === undefined ? sql`0` : sql`array_position(${texts(inventoryStatuses)}, ${status})`;
  const rank = rankOf(sql`status`);
  const beyond =
    name === undefined
      ? sql``
      : sql`and (${rank}, name, coalesce(identity, '')) > (${rankOf(sql`${worst}::text`)}, ${name}, ${identity})`;
  const rows = await db.execute<{ [Column in keyof InventoryItem]: InventoryItem[Column] }>(sql`
    select * from (${sql.join(parts, sql` union all `)}) items
    where strpos(lower(name), lower(${text})) > 0 ${beyond} order by (${rank})::int, name, coalesce(identity, ''), status limit ${limit + 1}`);
  return paged(rows, { limit }, (last) =>
    JSON.stringify([last.name, last.identity ?? "", last.status]),
  );
};

/** Counts the expected hosts that have never enrolled. */
export const countMissing = (db: Executor): Promise<number> =>
  readScalar(db, Number, sql`select count(*) from inventory_host where ${isMissing}`);

/** Counts the hosts of each status. */
export const countInventory = async (
  db: Executor,
  rules: FleetRules,
): Promise<Record<InventoryStatus, number>> => {
  const counts = inventoryStatuses.map((status) => {
    const name = sql.identifier(status);
    return status === "missing"
      ? sql`(select count(*) from inventory_host where ${isMissing})::int as ${name}`
      : sql`(select count(*) from fleet where ${inventoryPredicate(status, rules)})::int as ${name}`;
  });
  const [row] = await db.execute<Record<InventoryStatus, number>>(
    sql`select ${sql.join(counts, sql`, `)}`,
  );
  if (row === undefined) throw new Error("no counts of the inventory");
  return row;
};
