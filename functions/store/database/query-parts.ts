import { type AnyColumn, and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { AnyPgColumn, PgTable } from "drizzle-orm/pg-core";
import type { Executor } from "./database.ts";

/** Returns the condition that the column equals one of `values`: one parameter for all of them, where `inArray` takes one for each. */
export const anyOf = (column: AnyColumn, values: readonly (string | Uint8Array)[]): SQL => {
  const type = sql.raw(`${column.getSQLType()}[]`);
  return sql`${column} = any(${arrayLiteral(values)}::${type})`;
};

/** Returns the same for bytes that are given in lowercase hex. */
export const anyOfHex = (column: AnyColumn, values: readonly string[]): SQL =>
  sql`${column} = any(${`{${values.map((hex) => `"\\\\x${hex}"`).join(",")}}`}::bytea[])`;

/** Writes values as the literal of a PostgreSQL array. */
export const arrayLiteral = (values: readonly (string | Uint8Array)[]): string =>
  `{${values.map(elementOf).join(",")}}`;

const elementOf = (value: string | Uint8Array): string =>
  typeof value === "string" ? `"${value.replace(/["\\]/g, "\\$&")}"` : `"\\\\x${value.toHex()}"`;

/** Returns the first row of a query; undefined without one. */
export const firstRow = async <Row>(query: PromiseLike<readonly Row[]>): Promise<Row | undefined> =>
  (await query)[0];

/** Returns the LIKE pattern that matches `text` anywhere; `%`, `_` and `\` in it match themselves. */
export const substring = (text: string): string => `%${text.replace(/[\\%_]/g, "\\$&")}%`;

/** A page of a list whose ids are UUIDv7: newest first, ids below `after`. */
export interface PageRequest {
  after: string | null;
  limit: number;
}

/** The rows of a page, and the id after which the next one begins: null on the last page. */
export interface Paged<Row> {
  rows: Row[];
  next: string | null;
}

/** Returns the parts of a query for one page and one more row, which `paged` removes. */
export const pageOf = (
  id: AnyPgColumn,
  { after, limit }: PageRequest,
  where: readonly (SQL | undefined)[],
) => ({
  where: and(...where, after === null ? undefined : lt(id, after)),
  orderBy: desc(id),
  limit: limit + 1,
});

/** Returns the page of the rows that a query with `pageOf` returned. */
export const paged = <Row extends { id: string }>(
  rows: Row[],
  { limit }: PageRequest,
): Paged<Row> => ({
  rows: rows.slice(0, limit),
  next: rows.length > limit ? (rows[limit - 1]?.id ?? null) : null,
});

type TableWithId = PgTable & { readonly id: AnyPgColumn };
type Row<Table extends PgTable> = Table["$inferSelect"];

/** Returns one page of a table. */
export const listPage = async <Table extends TableWithId>(
  db: Executor,
  table: Table,
  page: PageRequest,
  conditions: readonly (SQL | undefined)[],
): Promise<Paged<Row<Table> & { id: string }>> => {
  const { where, orderBy, limit } = pageOf(table.id, page, conditions);
  const rows = db.select().from<PgTable>(table).where(where).orderBy(orderBy).limit(limit);
  return paged((await rows) as (Row<Table> & { id: string })[], page);
};

/** Creates the function that finds the row with a value of a column that is unique. */
export const finderOf =
  <Table extends PgTable & Partial<TableWithId>>(
    table: Table,
    column: AnyPgColumn = table.id as AnyPgColumn,
  ) =>
  (db: Executor, value: string): Promise<Row<Table> | undefined> =>
    firstRow(db.select().from<PgTable>(table).where(eq(column, value)));

/** Creates the same function, which also locks the row until the transaction ends: foreign keys do not wait for it. */
export const lockerOf =
  <Table extends TableWithId>(table: Table, column: AnyPgColumn = table.id) =>
  (tx: Executor, value: string): Promise<Row<Table> | undefined> =>
    firstRow(tx.select().from<PgTable>(table).where(eq(column, value)).for("no key update"));

/** Creates the function that inserts a row. */
export const inserterOf =
  <Table extends PgTable>(table: Table) =>
  async (db: Executor, row: Table["$inferInsert"]): Promise<void> => {
    await db.insert<PgTable>(table).values(row);
  };

/** Creates the function that changes the row with an id. */
export const updaterOf =
  <Table extends TableWithId>(table: Table) =>
  async (db: Executor, id: string, change: Partial<Row<Table>>): Promise<void> => {
    await db.update<PgTable>(table).set(change).where(eq(table.id, id));
  };
