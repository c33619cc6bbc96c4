import {
  type AnyColumn,
  and,
  asc,
  desc,
  eq,
  getTableColumns,
  type InferInsertModel,
  lt,
  type SQL,
  sql,
} from "drizzle-orm";
import {
  type AnyPgColumn,
  getTableConfig,
  PgDialect,
  type PgSelect,
  type PgTable,
} from "drizzle-orm/pg-core";
import { snakeCase } from "#proto/values.ts";
import type { Executor } from "./database.ts";

/** Returns the condition that the column equals one of `values`, with one parameter: `inArray` needs one for each value. */
export const anyOf = (column: AnyColumn, values: readonly (string | Uint8Array)[]): SQL => {
  const type = sql.raw(`${column.getSQLType()}[]`);
  return sql`${column} = any(${arrayLiteral(values)}::${type})`;
};

/** Returns the same condition for bytes, given in lowercase hex. */
export const anyOfHex = (column: AnyColumn, values: readonly string[]): SQL =>
  sql`${column} = any(${`{${values.map((hex) => `"\\\\x${hex}"`).join(",")}}`}::bytea[])`;

/** Writes values as the literal of a PostgreSQL array. */
export const arrayLiteral = (values: readonly (string | Uint8Array)[]): string =>
  `{${values.map(elementOf).join(",")}}`;

/** Writes texts as an array of PostgreSQL. */
export const texts = (values: readonly string[]): SQL => sql`${arrayLiteral(values)}::text[]`;

/** Writes ids as an array of PostgreSQL. */
export const uuids = (values: readonly string[]): SQL => sql`${arrayLiteral(values)}::uuid[]`;

/** Writes the time so many seconds after another, of which a number is in milliseconds since the epoch, as a timestamp of PostgreSQL. */
export const timestamptz = (at: Date | number, seconds = 0): SQL =>
  sql`${new Date(Number(at) + seconds * 1000).toISOString()}::timestamptz`;

const elementOf = (value: string | Uint8Array) =>
  typeof value === "string" ? `"${value.replace(/["\\]/g, "\\$&")}"` : `"\\\\x${value.toHex()}"`;

/** Returns the first row of a query; undefined without one. */
export const firstRow = async <Row>(query: PromiseLike<readonly Row[]>): Promise<Row | undefined> =>
  (await query)[0];

/** Reports whether a query returns a row. */
export const hasRows = async (query: PromiseLike<readonly unknown[]>): Promise<boolean> =>
  (await query).length > 0;

/** The columns of a result, each with the function that converts the driver's value, such as `Number`. */
type ReadColumns = Readonly<Record<string, (value: never) => unknown>>;

/** A row with these columns. */
export type RowOf<Columns extends ReadColumns> = {
  [Name in keyof Columns]: ReturnType<Columns[Name]>;
};

/** Types a column that needs no conversion. */
export const asIs = <Value>(value: Value): Value => value;

/** Converts a timestamp. */
export const asDate = (value: string): Date => new Date(value);

/** Converts a column that may be null. */
export const orNull =
  <Raw, Value>(convert: (value: Raw) => Value) =>
  (value: Raw | null): Value | null =>
    value === null ? null : convert(value);

/** Runs a statement and returns its rows. A column has the name of its property in snake_case. */
export const readRows = async <Columns extends ReadColumns>(
  db: Pick<Executor, "execute">,
  columns: Columns,
  statement: SQL,
): Promise<RowOf<Columns>[]> => (await db.execute(statement)).map(rowReader(columns));

/** Runs a statement and returns its first row; undefined without one. */
export const readRow = <Columns extends ReadColumns>(
  ...read: Parameters<typeof readRows<Columns>>
): Promise<RowOf<Columns> | undefined> => firstRow(readRows(...read));

/** Runs a statement that always returns a row, and returns this row. */
export const readOne = async <Columns extends ReadColumns>(
  ...read: Parameters<typeof readRows<Columns>>
): Promise<RowOf<Columns>> => requireRow(await readRow(...read));

const requireRow = <Row>(row: Row | undefined): Row => {
  if (row === undefined) throw new Error("the statement returned no row");
  return row;
};

/** Runs a statement and returns the first column of its rows. */
export const readScalars = async <Raw, Value>(
  db: Pick<Executor, "execute">,
  convert: (value: Raw) => Value,
  statement: SQL,
): Promise<Value[]> => {
  const rows = await db.execute(statement);
  return rows.map((row) => convert(Object.values(row)[0] as Raw));
};

/** Runs a statement that always returns a row, and returns its first column. */
export const readScalar = async <Raw, Value>(
  ...read: Parameters<typeof readScalars<Raw, Value>>
): Promise<Value> => requireRow(await firstRow(readScalars(...read)));

/** Returns the function that converts the rows of a statement; it throws for a column that these lack. */
export const rowReader = <Columns extends ReadColumns>(columns: Columns) => {
  const readers = Object.entries(columns).map(
    ([name, convert]) => [name, snakeCase(name), convert] as const,
  );
  return (row: Readonly<Record<string, unknown>>): RowOf<Columns> => {
    const converted: Record<string, unknown> = {};
    for (const [name, column, convert] of readers) {
      const value = row[column];
      if (value === undefined) throw new Error(`the statement returned no column ${column}`);
      converted[name] = convert(value as never);
    }
    return converted as RowOf<Columns>;
  };
};

/** Returns the LIKE pattern that matches `text` anywhere; `%`, `_` and `\` in it match themselves. */
export const substring = (text: string): string => `%${text.replace(/[\\%_]/g, "\\$&")}%`;

/** A page of a list whose ids are UUIDv7: newest first, ids below `after`. */
export interface PageRequest {
  after: string | null;
  limit: number;
  /** By severity: what needs somebody comes before all else. */
  sort?: "severity" | undefined;
}

/** The rows of a page, and the id after which the next page begins; null on the last page. */
export interface Paged<Row> {
  rows: Row[];
  next: string | null;
}

/** Returns the page of rows that a query with room for one more returned; `positionOf` a row is where the next page begins. */
export const paged = <Row>(
  rows: readonly Row[],
  { limit }: Pick<PageRequest, "limit">,
  positionOf: (row: Row) => string,
): Paged<Row> => {
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return { rows: rows.slice(0, limit), next: last === undefined ? null : positionOf(last) };
};

/**
 * Returns the order of a page's rows, newest first, and the condition for those after the row where it begins. A page by severity has the rows
 * with the lowest `rank` before all others.
 */
export const pageOrder = (
  id: AnyPgColumn,
  { after, sort }: PageRequest,
  rank?: SQL,
): { order: SQL[]; beyond: SQL | undefined } => {
  const isRanked = sort !== undefined && rank !== undefined;
  const order = [...(isRanked ? [asc(rank)] : []), desc(id)];
  if (after === null) return { order, beyond: undefined };
  if (!isRanked) return { order, beyond: lt(id, after) };
  const begin = sql`(select ${rank} from ${id.table} where ${id} = ${after})`;
  return { order, beyond: sql`(${rank} > ${begin} or ${rank} = ${begin} and ${id} < ${after})` };
};

/** Returns one page of the rows of a query without a condition, as `pageOrder` orders them: those that meet all of `conditions`. */
export const selectPage = async <Row extends { id: string }>(
  query: PromiseLike<Row[]>,
  id: AnyPgColumn,
  page: PageRequest,
  conditions: readonly (SQL | undefined)[],
  rank?: SQL,
): Promise<Paged<Row>> => {
  const { order, beyond } = pageOrder(id, page, rank);
  const where = and(...conditions, beyond);
  const selected = (query as unknown as PgSelect).where(where).orderBy(...order);
  const rows = (await selected.limit(page.limit + 1)) as Row[];
  return paged(rows, page, (row) => row.id);
};

type TableWithId = PgTable & { readonly id: AnyPgColumn };
type Row<Table extends PgTable> = Table["$inferSelect"];

/** Returns one page of a table. */
export const listPage = <Table extends TableWithId>(
  db: Executor,
  table: Table,
  page: PageRequest,
  conditions: readonly (SQL | undefined)[],
): Promise<Paged<Row<Table> & { id: string }>> => {
  const query = db.select().from<PgTable>(table) as PromiseLike<unknown[]>;
  return selectPage(
    query as PromiseLike<(Row<Table> & { id: string })[]>,
    table.id,
    page,
    conditions,
  );
};

/** Creates the function that finds the row with a value of a unique column. */
export const finderOf =
  <Table extends PgTable & Partial<TableWithId>>(
    table: Table,
    column: AnyPgColumn = table.id as AnyPgColumn,
  ) =>
  (db: Executor, value: string | Uint8Array): Promise<Row<Table> | undefined> =>
    firstRow(db.select().from<PgTable>(table).where(eq(column, value)));

/** Creates a function that finds the row and locks it until the transaction ends. Foreign keys do not wait for the lock. */
export const lockerOf =
  <Table extends PgTable & Partial<TableWithId>>(
    table: Table,
    column: AnyPgColumn = table.id as AnyPgColumn,
  ) =>
  (tx: Executor, value: string | Uint8Array): Promise<Row<Table> | undefined> =>
    firstRow(tx.select().from<PgTable>(table).where(eq(column, value)).for("no key update"));

/** Creates the function that inserts one or several rows. */
export const inserterOf =
  <Table extends PgTable>(table: Table) =>
  async (db: Executor, ...rows: readonly Table["$inferInsert"][]) => {
    await db.insert<PgTable>(table).values([...rows]);
  };

/** Creates the function that changes the row with an id. */
export const updaterOf =
  <Table extends TableWithId>(table: Table) =>
  async (db: Executor, id: string, change: Partial<Row<Table>>) => {
    await db.update<PgTable>(table).set(change).where(eq(table.id, id));
  };

/** Creates the function that deletes the row with a value of a unique column. */
export const deleterOf =
  <Table extends PgTable & Partial<TableWithId>>(
    table: Table,
    column: AnyPgColumn = table.id as AnyPgColumn,
  ) =>
  async (db: Executor, value: string) => {
    await db.delete<PgTable>(table).where(eq(column, value));
  };

const dialect = new PgDialect();

/**
 * Runs a statement that its connection keeps prepared, for statements of hot paths, whose text is the same at each call. This saves the
 * server parsing and planning, and core a round trip. The connection may keep a plan that was made when the tables were small: see
 * `planByIndex`. In a transaction, prepared statements run in the order of their calls: calls that are awaited together take one round
 * trip.
 */
export const executePrepared = <Row>(db: Executor, statement: SQL): Promise<readonly Row[]> =>
  defineStatement<Row>(statement)(db, {});

type Values = Readonly<Record<string, unknown>>;

/**
 * Returns a function that runs a statement with the values of its placeholders, and builds its text once. The connection keeps it prepared,
 * as with `executePrepared`, unless `isKept` is false: for a text that others will not use.
 */
export const defineStatement = <Row>(
  statement: SQL,
  { isKept = true } = {},
): ((db: Executor, values: Values) => Promise<readonly Row[]>) => {
  let query: ReturnType<PgDialect["sqlToQuery"]> | undefined;
  return async (db, values) => {
    query ??= dialect.sqlToQuery(statement);
    // The only use of what drizzle does not document; database.test.ts fails when it changes.
    return (await db._.session
      .prepareQuery(query, undefined, isKept ? "prepared" : undefined, false)
      .execute(values)) as Row[];
  };
};

/** Returns the same function for one connection or pool. */
export const prepareStatement = <Row>(
  db: Executor,
  statement: SQL,
): ((values: Values) => Promise<readonly Row[]>) => {
  const run = defineStatement<Row>(statement);
  return (values) => run(db, values);
};

/** Limits each wait of this transaction for a lock to a second: for a group of items, which can be retried individually. */
export const limitLockWaits = async (tx: Executor) => {
  await setLockTimeout(tx, {});
};
const setLockTimeout = defineStatement(sql`set local lock_timeout = '1s'`);

/**
 * Makes the planner of this transaction use indexes wherever it can, so that a plan made for a small table suits a large one too: for
 * transactions whose statements look up rows by key.
 */
export const planByIndex = async (tx: Executor) => {
  await disableScans(tx, {});
};
const disableScans = defineStatement(sql`set local enable_seqscan = off`);

/**
 * Inserts rows with one statement of constant text, for groups, for which building a VALUES list costs more than the insert. A column
 * without a value becomes null, even if it has a default. Appends `tail`: `on conflict`, `returning`.
 */
export const insertRows = async <Table extends PgTable>(
  db: Executor,
  table: Table,
  rows: readonly InferInsertModel<Table>[],
  tail: SQL = sql``,
): Promise<readonly Record<string, unknown>[]> => {
  if (rows.length === 0) return [];
  const { keys, head } = insertOf(table);
  const json = JSON.stringify(
    rows.map((row: Readonly<Record<string, unknown>>) => {
      const wire: Record<string, unknown> = {};
      for (const { key, name } of keys) wire[name] = wireOf(row[key]);
      return wire;
    }),
  );
  return executePrepared(db, sql`${head} ${json}::json) ${tail}`);
};

/** The columns of a table, and its insert statement up to the rows, which are the same at each call. */
const insertOf = (
  table: PgTable,
): { keys: readonly { key: string; name: string }[]; head: SQL } => {
  const known = inserts.get(table);
  if (known !== undefined) return known;
  const keys = Object.entries(getTableColumns(table)).map(([key, { name }]) => ({ key, name }));
  const columns = keys.map(({ name }) => `"${name}"`).join(", ");
  const { name } = getTableConfig(table);
  const head = sql.raw(
    `insert into "${name}" (${columns}) select ${columns} from json_populate_recordset(null::"${name}",`,
  );
  const insert = { keys, head };
  inserts.set(table, insert);
  return insert;
};

const inserts = new WeakMap<PgTable, ReturnType<typeof insertOf>>();

/** Converts a value to JSON for its column's text input; JSON itself converts dates. */
const wireOf = (value: unknown): unknown => {
  if (typeof value === "bigint") return String(value);
  return value instanceof Uint8Array ? `\\x${value.toHex()}` : (value ?? null);
};

/** Every transaction with a lower id has ended. */
export const oldestXid = sql`pg_snapshot_xmin(pg_current_snapshot())::text::bigint`;
/** No transaction has this id yet, nor a higher one. */
export const nextXid = sql`pg_snapshot_xmax(pg_current_snapshot())::text::bigint`;

/** Returns the oldest transaction id in use: no row of a lower one can appear later. */
export const findOldestXid = (db: Pick<Executor, "execute">): Promise<bigint> =>
  readScalar(db, BigInt, sql`select ${oldestXid} as xid`);
