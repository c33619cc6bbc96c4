import { count, gt, sql } from "drizzle-orm";
import { heldHost, volumeBudget } from "#drizzle/schema/volume.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { Executor } from "../database/database.ts";
import {
  deleterOf,
  insertRows,
  type RowOf,
  readRows,
  readScalar,
  texts,
  timestamptz,
} from "../database/statements.ts";
import type { FleetRules } from "../fleet/conditions.ts";
import { fleetPredicate } from "../fleet/predicate.ts";

/** A budget's row. */
export type BudgetRow = typeof volumeBudget.$inferSelect;

/** A host that has sent its budget. */
export type HeldHost = typeof heldHost.$inferSelect;

const changeLock = sql`select pg_advisory_xact_lock(hashtext('volume_budget'))`;

/** Finds the budgets, the smallest first. */
export const findBudgets = (db: Executor): Promise<BudgetRow[]> =>
  db.select().from(volumeBudget).orderBy(volumeBudget.bytesPerHour, volumeBudget.name);

/** Finds the budgets as `findBudgets`, and locks them against changes until the transaction ends. */
export const lockBudgets = async (tx: Executor): Promise<BudgetRow[]> => {
  await tx.execute(changeLock);
  return findBudgets(tx);
};

/** Inserts or replaces a budget. */
export const putBudgetRow = async (tx: Executor, row: BudgetRow) => {
  await tx
    .insert(volumeBudget)
    .values(row)
    .onConflictDoUpdate({ target: volumeBudget.name, set: row });
};

/** Deletes a budget. */
export const deleteBudgetRow = deleterOf(volumeBudget, volumeBudget.name);

/** Counts the hosts that each budget holds. */
export const countHeldHosts = async (
  db: Executor,
  now: number,
): Promise<ReadonlyMap<string, number>> => {
  const rows = await db
    .select({ budget: heldHost.budget, hosts: count() })
    .from(heldHost)
    .where(gt(heldHost.until, new Date(now)))
    .groupBy(heldHost.budget);
  return new Map(rows.map(({ budget, hosts }) => [budget, hosts]));
};

/** Finds the held hosts. */
export const findHeldHosts = (db: Executor): Promise<HeldHost[]> => db.select().from(heldHost);

/** Holds hosts, or continues to under another budget or in another hour. */
export const putHeldHosts = async (tx: Executor, rows: readonly HeldHost[]) => {
  const tail = sql`on conflict (host_id) do update set budget = excluded.budget, until = excluded.until`;
  await insertRows(tx, heldHost, rows, tail);
};

/** Releases hosts. */
export const deleteHeldHosts = async (tx: Executor, hostIds: readonly string[]) => {
  if (hostIds.length === 0) return;
  await tx.delete(heldHost).where(sql`${heldHost.hostId} = any(${texts(hostIds)})`);
};

/** Lets one core at a time decide which hosts are held, until its transaction ends; returns false if another one does. */
export const tryLockHolds = (tx: Executor): Promise<boolean> =>
  readScalar(tx, Boolean, sql`select pg_try_advisory_xact_lock(hashtext('held_host'))`);

/** A budget with its parsed filter. */
interface FilteredBudget {
  name: string;
  filter: FleetFilter;
  bytesPerHour: number;
}

const hostOver = { hostId: String, identityId: String, budget: String };

/**
 * Finds the hosts of which core has stored so much in the hour that began at `hour`, each with the first of its budgets that it has
 * reached. Looks up each host of any filter: identities are compared by the collation of the index, without which each would be a scan.
 */
export const findHostsOver = async (
  db: Executor,
  rules: FleetRules,
  { budgets, hour }: { budgets: readonly FilteredBudget[]; hour: Date },
): Promise<RowOf<typeof hostOver>[]> => {
  if (budgets.length === 0) return [];
  const filters = budgets.map(({ filter }) => sql`(${fleetPredicate(filter, rules)})`);
  const isOver = budgets.map(
    ({ name, bytesPerHour }, index) =>
      sql`when ${filters[index]} and sent >= ${bytesPerHour}::bigint then ${name}`,
  );
  return readRows(
    db,
    hostOver,
    sql`
    select identity as host_id, identity_id, budget from (
      select identity, identity_id, case ${sql.join(isOver, sql` `)} end as budget from (
        select *, (select sum(payload_bytes) from ingest_hour where host_id = identity collate "default" and hour = ${timestamptz(hour)}) as sent
        from fleet where ${sql.join(filters, sql` or `)} offset 0) counted) judged
    where budget is not null`,
  );
};
