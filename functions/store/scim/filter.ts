import { asc, type SQL, sql } from "drizzle-orm";
import type { AnyPgColumn, PgTable } from "drizzle-orm/pg-core";
import { lowerAscii } from "#kit/lower-ascii.ts";
import type { ScimAttribute, ScimFilter, ScimValue } from "#proto/scim/filter.ts";
import type { Executor } from "../database/database.ts";

/** How a filter compares an attribute. `key`: text without case, in a column of its own. */
interface FilterColumn {
  type: "text" | "exact" | "key" | "boolean" | "timestamp";
  column: SQL;
}

/** The attributes of a resource that filters may name, and how its lists are searched. */
export interface FilterColumns {
  /** By lower-case name, with sub-attribute: `name.givenname`. */
  attributes: Readonly<Record<string, FilterColumn>>;
  /** Lists: their elements as a FROM item, and the columns of an element. The element's own name stands for `value`. */
  lists: Readonly<
    Record<string, { from: SQL; attributes: Readonly<Record<string, FilterColumn>> }>
  >;
}

/** A filter names an attribute or an operator that core does not support. */
export class UnsupportedFilter extends Error {
  override readonly name = "UnsupportedFilter";
}

/** Converts a filter to a condition. Throws `UnsupportedFilter`. */
const filterCondition = (filter: ScimFilter, columns: FilterColumns): SQL => {
  switch (filter.kind) {
    case "and":
      return sql`(${filterCondition(filter.left, columns)} and ${filterCondition(filter.right, columns)})`;
    case "or":
      return sql`(${filterCondition(filter.left, columns)} or ${filterCondition(filter.right, columns)})`;
    case "not":
      return sql`(not coalesce(${filterCondition(filter.filter, columns)}, false))`;
    case "present":
    case "compare": {
      const { name, sub } = filter.attribute;
      if (!Object.hasOwn(columns.lists, name))
        return compare(columnOf(filter.attribute, columns), filter);
      const attribute: ScimAttribute = { name: sub ?? "value", sub: null };
      return filterCondition({ kind: "has", name, filter: { ...filter, attribute } }, columns);
    }
    case "has": {
      const list = Object.hasOwn(columns.lists, filter.name)
        ? columns.lists[filter.name]
        : undefined;
      if (list === undefined) throw new UnsupportedFilter("core does not filter by that attribute");
      const condition = filterCondition(filter.filter, { attributes: list.attributes, lists: {} });
      return sql`exists (select 1 from ${list.from} where ${condition})`;
    }
  }
};

const columnOf = ({ name, sub }: ScimAttribute, { attributes }: FilterColumns): FilterColumn => {
  const key = sub === null ? name : `${name}.${sub}`;
  const column = Object.hasOwn(attributes, key) ? attributes[key] : undefined;
  if (column === undefined) throw new UnsupportedFilter("core does not filter by that attribute");
  return column;
};

type Comparing = Extract<ScimFilter, { kind: "present" | "compare" }>;

const compare = ({ type, column }: FilterColumn, filter: Comparing): SQL => {
  if (filter.kind === "present") return sql`(${column} is not null)`;
  const { operator, value } = filter;
  if (value === null && (operator === "eq" || operator === "ne"))
    return operator === "eq" ? sql`(${column} is null)` : sql`(${column} is not null)`;
  const [left, right] = sidesOf(type, column, value);
  switch (operator) {
    case "eq":
      return sql`(${left} = ${right})`;
    case "ne":
      return sql`(${left} is distinct from ${right})`;
    case "gt":
    case "ge":
    case "lt":
    case "le":
      if (type === "boolean") break;
      return sql`(${left} ${sql.raw({ gt: ">", ge: ">=", lt: "<", le: "<=" }[operator])} ${right})`;
    default:
      if (type === "boolean" || type === "timestamp") break;
      if (operator === "co") return sql`(position(${right} in ${left}) > 0)`;
      return operator === "sw"
        ? sql`starts_with(${left}, ${right})`
        : sql`(right(${left}, length(${right})) = ${right})`;
  }
  throw new UnsupportedFilter("the operator does not fit the attribute");
};

/** PostgreSQL reads timestamps between these in ISO 8601. */
const timestampMin = Date.parse("0001-01-01T00:00:00Z");
const timestampMax = Date.parse("9999-12-31T23:59:59.999Z");

const sidesOf = (type: FilterColumn["type"], column: SQL, value: ScimValue): [SQL, SQL] => {
  const fits = new UnsupportedFilter("the value does not fit the attribute");
  if (type === "boolean") {
    const text = String(value).toLowerCase();
    if (text !== "true" && text !== "false") throw fits;
    return [column, sql`${text === "true"}::boolean`];
  }
  if (typeof value !== "string") throw fits;
  if (type === "timestamp") {
    const at = Date.parse(value);
    if (!(at >= timestampMin && at <= timestampMax)) throw fits;
    return [column, sql`${new Date(at).toISOString()}::timestamptz`];
  }
  if (value.includes("\0") || !value.isWellFormed()) throw fits;
  if (type === "exact") return [column, sql`${value}::text`];
  if (type === "key") return [column, sql`${lowerAscii(value)}::text`];
  return [sql`lower(${column})`, sql`lower(${value}::text)`];
};

/** The part of a list that a request names: `offset` rows are skipped. */
export interface ScimPage {
  filter: ScimFilter | null;
  offset: number;
  limit: number;
}

/** One page of a list, and how many rows there are. */
export interface ScimList<Row> {
  rows: Row[];
  total: number;
}

/** Returns one page of a table, in the order of creation. Throws `UnsupportedFilter`. */
export const listScim = async <Table extends PgTable & { readonly id: AnyPgColumn }>(
  db: Executor,
  table: Table,
  filtered: FilterColumns,
  { filter, offset, limit }: ScimPage,
): Promise<ScimList<Table["$inferSelect"]>> => {
  const where = filter === null ? undefined : filterCondition(filter, filtered);
  const total = await db.$count(table, where);
  if (limit === 0 || offset >= total) return { rows: [], total };
  const rows = await db
    .select()
    .from<PgTable>(table)
    .where(where)
    .orderBy(asc(table.id))
    .limit(limit)
    .offset(offset);
  return { rows, total };
};
