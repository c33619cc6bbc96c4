import { sql } from "drizzle-orm";
import { type FleetFilter, selectsEveryHost } from "#proto/fleet-health/filter.ts";
import type { Executor } from "../database/database.ts";
import type { FleetColumns } from "./columns/fleet-columns.ts";
import { markHosts } from "./columns/select-hosts.ts";
import { fleetPredicate } from "./predicate.ts";
import { type FleetRules, hostsOf } from "./rows.ts";

/** Counts the hosts that match all of `filters`, in core's memory if `columns` have the hosts. */
export const countHosts = async (
  db: Executor,
  rules: FleetRules,
  filters: readonly FleetFilter[],
  columns?: FleetColumns,
): Promise<number> => {
  const narrowing = filters.filter((filter) => !selectsEveryHost(filter));
  const predicates = (narrowing.length === 0 ? [{}] : narrowing).map((filter) =>
    fleetPredicate(filter, rules),
  );
  const where = sql.join(predicates, sql` and `);
  const marked = await markHosts(db, columns, where);
  if (marked) return marked.places.length;
  const [row] = await db.execute<{ hosts: number }>(
    sql`select count(*)::int as hosts from ${hostsOf(rules)} where ${where}`,
  );
  return row?.hosts ?? 0;
};
