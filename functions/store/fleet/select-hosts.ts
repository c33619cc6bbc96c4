/**
 * Answers for a fleet: counts the hosts of a condition, or finds the first of them. Two engines do it with the same results, core's memory
 * (resident-selection.ts) and the database, from the same expressions; hosts of the past are other rows, not another engine.
 */
import { type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { Executor } from "#functions/store/database/database.ts";
import type { Expression } from "./columns/expression.ts";
import type { ResidentHosts } from "./columns/resident-hosts.ts";
import { type FleetRules, hostsOf } from "./conditions.ts";
import { selectResident } from "./resident-selection.ts";

/** The fleet at the time of some rules, as a view of it has it. */
export interface ViewedFleet {
  db: Executor;
  rules: FleetRules;
  /** The same hosts in core's memory; absent while it does not have them. */
  hosts?: ResidentHosts | undefined;
}

/** The hosts that a condition is true of. */
export interface SelectedHosts {
  /** Counts them by each value of the expressions `groups`, and how many of them each of `conditions` is true of. */
  count<Group extends string = never, Condition extends string = never>(
    groups: Expressions<Group>,
    conditions: Expressions<Condition>,
  ): Promise<GroupCounts<Group, Condition>>;
  /** Returns the ids of the first of them in an order, and the position of the last if more follow. */
  first(order: HostOrder, range: OrderedRange): Promise<FirstHosts>;
}

/** Expressions by name. */
export type Expressions<Name extends string> = Readonly<Record<Name, Expression>>;

/** Numbers of hosts: of all, and of those that each of some conditions is true of. */
export type HostCounts<Condition extends string> = Record<Condition | "all", number>;

/** Numbers of hosts by the text of a value. */
export type CountsByValue<Condition extends string> = ReadonlyMap<string, HostCounts<Condition>>;

/** The numbers of all hosts of a selection, and by each value of some expressions. */
export interface GroupCounts<Group extends string, Condition extends string> {
  totals: HostCounts<Condition>;
  by: Record<Group, CountsByValue<Condition>>;
}

/** What hosts are sorted by. Only a text, their identity, is unique: of equal ones, the id decides. */
export interface HostOrder {
  key: Expression;
  type: "text" | "timestamptz" | "bigint" | "int";
}

/** A key of another table, which only the database can sort by. */
export interface JoinedOrder extends Pick<HostOrder, "type"> {
  key: SQL;
  join: SQL;
}

/** The position after the host with this id and key, written as the database writes it. */
export interface FleetPosition {
  value: string;
  id: string;
}

/** The hosts of an order that are wanted. */
export interface OrderedRange {
  order: "asc" | "desc";
  limit: number;
  after: FleetPosition | null;
}

/** The ids of some hosts in order, and the position of the next ones; null after the last. */
export interface FirstHosts {
  ids: string[];
  next: FleetPosition | null;
}

/** Selects the hosts of a condition: in core's memory if it has them, otherwise in the database. */
export const selectHosts = async (view: ViewedFleet, where: Expression): Promise<SelectedHosts> =>
  view.hosts ? await selectResident(view.db, view.hosts, where) : selectStored(view, where);

/** Selects the hosts of a condition in the database. */
export const selectStored = (view: ViewedFleet, where: Expression) => ({
  count: <Group extends string = never, Condition extends string = never>(
    groups: Expressions<Group>,
    conditions: Expressions<Condition>,
  ) => countStored(view, where, groups, conditions),
  first: (order: HostOrder | JoinedOrder, range: OrderedRange) =>
    firstStored(view, where, order, range),
});

/** Groups by all expressions together first, with one lookup for each row instead of one for each row and expression. */
const countStored = async <Group extends string, Condition extends string>(
  { db, rules }: ViewedFleet,
  where: Expression,
  groups: Expressions<Group>,
  conditions: Expressions<Condition>,
): Promise<GroupCounts<Group, Condition>> => {
  const names = Object.keys(groups) as Group[];
  const identifiers = names.map((name) => sql.identifier(name));
  const values = names.map((name) => sql`${groups[name]} as ${sql.identifier(name)}, `);
  const filtered = Object.entries<Expression>(conditions).map(
    ([name, condition]) => sql`, count(*) filter (where ${condition}) as ${sql.identifier(name)}`,
  );
  const counted = ["all", ...Object.keys(conditions)] as (Condition | "all")[];
  const sums = counted.map(
    (name) => sql`coalesce(sum(${sql.identifier(name)}), 0)::int as ${sql.identifier(name)}`,
  );
  const mask = names.length === 0 ? sql`0` : sql`grouping(${sql.join(identifiers, sql`, `)})`;
  const sets = [...identifiers.map((name) => sql`(${name})`), sql`()`];
  const rows = await db.execute<
    Record<string, unknown> & HostCounts<Condition> & { mask: number }
  >(sql`
    select ${sql.join([...identifiers, sql`${mask} as mask`, ...sums], sql`, `)}
    from (
      select ${sql.join(values)} count(*) as "all" ${sql.join(filtered)}
      from ${hostsOf(rules)} where ${where} group by ${sql.raw(names.map((_, index) => index + 1).join(", ") || "()")}
    ) counted
    group by grouping sets (${sql.join(sets, sql`, `)})`);
  // The mask has a bit for each expression that the row does not count by; the lowest bit is the last one.
  const every = 2 ** names.length - 1;
  const totals = rows.find((row) => row.mask === every);
  if (totals === undefined) throw new Error("the count returned no total");
  const countsOf = (row: HostCounts<Condition>) =>
    Object.fromEntries(counted.map((name) => [name, row[name]])) as HostCounts<Condition>;
  const by = {} as GroupCounts<Group, Condition>["by"];
  for (const [index, name] of names.entries()) {
    const own = every - 2 ** (names.length - 1 - index);
    const ofValues = rows.filter((row) => row.mask === own);
    by[name] = new Map(ofValues.map((row) => [String(row[name]), countsOf(row)]));
  }
  return { totals: countsOf(totals), by };
};

const firstStored = async (
  { db, rules }: ViewedFleet,
  where: Expression,
  order: HostOrder | JoinedOrder,
  { order: direction, limit, after }: OrderedRange,
): Promise<FirstHosts> => {
  const { key, type } = order;
  const join = "join" in order ? order.join : sql``;
  const isColumn = "kind" in key && key.kind === "column";
  const isUnique = type === "text";
  const keys = isUnique ? [sql`sort_key`] : [sql`sort_key`, sql`identity_id`];
  const sorted = keys.map((each) => sql`${each} ${sql.raw(direction)}`);
  const position = after && [sql`${after.value}::${sql.raw(type)}`, sql`${after.id}::uuid`];
  const isBeyond =
    position &&
    sql`where ${tuple(keys)} ${sql.raw(direction === "asc" ? ">" : "<")} ${tuple(position.slice(0, keys.length))}`;
  // A key that is a column needs its index; `offset 0` keeps the planner from computing any other key twice for each row.
  const rows = await db.execute<{ id: string; value: string }>(sql`
    select identity_id as id, sort_key::text as value
    from (select identity_id, ${key as SQLWrapper} as sort_key from ${hostsOf(rules)} ${join} where ${where} ${isColumn ? sql`` : sql`offset 0`}) keyed
    ${isBeyond ?? sql``} order by ${sql.join(sorted, sql`, `)} limit ${limit + 1}`);
  const first = rows.slice(0, limit);
  return {
    ids: first.map(({ id }) => id),
    next: rows.length > limit ? (first.at(-1) ?? null) : null,
  };
};

const tuple = (parts: readonly SQL[]): SQL => sql`(${sql.join([...parts], sql`, `)})`;
