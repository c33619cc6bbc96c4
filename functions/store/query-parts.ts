import { type AnyColumn, and, desc, getTableColumns, type InferInsertModel, lt, type SQL, sql } from "drizzle-orm";
import { type AnyPgColumn, getTableConfig, type PgTable } from "drizzle-orm/pg-core";
import type { Executor } from "./database.ts";
import { executePrepared } from "./execute-prepared.ts";

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

/** Returns the LIKE pattern that matches `text` anywhere; `%`, `_` and `\` in it match themselves. */
export const substring = (text: string): string => `%${text.replace(/[\\%_]/g, "\\$&")}%`;

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
const insertOf = (table: PgTable): { keys: readonly { key: string; name: string }[]; head: SQL } => {
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
const wireOf = (value: unknown): unknown => (value instanceof Uint8Array ? `\\x${value.toHex()}` : (value ?? null));

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
export const pageOf = (id: AnyPgColumn, { after, limit }: PageRequest, where: readonly (SQL | undefined)[]) => ({
  where: and(...where, after === null ? undefined : lt(id, after)),
  orderBy: desc(id),
  limit: limit + 1,
});

/** Returns the page of the rows that a query with `pageOf` returned. */
export const paged = <Row extends { id: string }>(rows: Row[], { limit }: PageRequest): Paged<Row> => ({
  rows: rows.slice(0, limit),
  next: rows.length > limit ? (rows[limit - 1]?.id ?? null) : null,
});
