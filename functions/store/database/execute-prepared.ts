import { getTableColumns, type InferInsertModel, type SQL, sql } from "drizzle-orm";
import { getTableConfig, PgDialect, type PgTable } from "drizzle-orm/pg-core";
import type { Executor } from "./database.ts";

const dialect = new PgDialect();

/**
 * Runs a statement that its connection keeps prepared, which saves the server its parsing and planning and core a round trip: for
 * statements of hot paths, whose text is the same at each call. Also its plan may be kept from when the tables were small: see `planByIndex`.
 * In a transaction, prepared statements run in the order in which they were called, so a caller need not await one to call the next:
 * calls that are awaited together take one round trip.
 */
export const executePrepared = <Row>(db: Executor, statement: SQL): Promise<readonly Row[]> =>
  defineStatement<Row>(statement)(db, {});

type Values = Readonly<Record<string, unknown>>;

/** Returns a function that runs a statement as `executePrepared` does, with the values of its placeholders: its text is built once. */
export const defineStatement = <Row>(
  statement: SQL,
): ((db: Executor, values: Values) => Promise<readonly Row[]>) => {
  let query: ReturnType<PgDialect["sqlToQuery"]> | undefined;
  return async (db, values) => {
    query ??= dialect.sqlToQuery(statement);
    // The only use of what drizzle does not document; database.test.ts fails when it changes.
    return (await db._.session
      .prepareQuery(query, undefined, "prepared", false)
      .execute(values)) as Row[];
  };
};

/** Returns the same for one connection or pool. */
export const prepareStatement = <Row>(
  db: Executor,
  statement: SQL,
): ((values: Values) => Promise<readonly Row[]>) => {
  const run = defineStatement<Row>(statement);
  return (values) => run(db, values);
};

/** Limits each wait of this transaction for a lock to a second: for a group of items, which can be retried one by one. */
export const limitLockWaits = async (tx: Executor): Promise<void> => {
  await setLockTimeout(tx, {});
};
const setLockTimeout = defineStatement(sql`set local lock_timeout = '1s'`);

/**
 * Makes the planner of this transaction use indexes wherever it can: for transactions whose statements look up rows by key, so that a plan
 * that is kept suits a large table even if it was made for a small one.
 */
export const planByIndex = async (tx: Executor): Promise<void> => {
  await disableScans(tx, {});
};
const disableScans = defineStatement(sql`set local enable_seqscan = off`);

/**
 * Inserts rows with one statement of constant length: for groups, where building a VALUES list costs more than the insert. A column
 * without a value becomes null, even if it has a default. `tail` is appended: `on conflict`, `returning`.
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

/** The columns of a table, and the statement that inserts them up to its rows: the same at each call. */
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

/** Returns a value as JSON for its column's text input; JSON itself writes dates. */
const wireOf = (value: unknown): unknown =>
  value instanceof Uint8Array ? `\\x${value.toHex()}` : (value ?? null);
