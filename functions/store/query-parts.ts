import { type AnyColumn, and, desc, getTableColumns, type InferInsertModel, lt, type SQL, sql } from "drizzle-orm";
import type { AnyPgColumn } from "drizzle-orm/pg-core";
import { getTableConfig, type PgTable } from "drizzle-orm/pg-core";
import type { Executor } from "./database.ts";

/** The column holds one of the values: one parameter, however many they are, where `inArray` would take one for each. */
export const anyOf = (column: AnyColumn, values: readonly (string | Uint8Array)[]): SQL => {
  const type = sql.raw(`${column.getSQLType()}[]`);
  return sql`${column} = any(${`{${values.map(elementOf).join(",")}}`}::${type})`;
};

const elementOf = (value: string | Uint8Array): string =>
  typeof value === "string" ? `"${value.replace(/["\\]/g, "\\$&")}"` : `"\\\\x${value.toHex()}"`;

/** The LIKE pattern that finds `text` anywhere; `%`, `_` and `\` in it stand for themselves. */
export const substring = (text: string): string => `%${text.replace(/[\\%_]/g, "\\$&")}%`;

/**
 * Inserts rows by one statement whose text does not grow with them: for groups, where building values row by row costs more than the
 * insert. Every column without a value becomes null, one with a default too: give it. `tail` follows: `on conflict`, `returning`.
 */
export const insertRows = async <Table extends PgTable>(
  db: Executor,
  table: Table,
  rows: readonly InferInsertModel<Table>[],
  tail: SQL = sql``,
): Promise<readonly Record<string, unknown>[]> => {
  if (rows.length === 0) return [];
  const keys = Object.entries(getTableColumns(table)).map(([key, { name }]) => ({ key, name }));
  const json = JSON.stringify(
    rows.map((row: Readonly<Record<string, unknown>>) =>
      Object.fromEntries(keys.map(({ key, name }) => [name, wireOf(row[key])])),
    ),
  );
  const name = sql.identifier(getTableConfig(table).name);
  const columns = sql.raw(keys.map((column) => `"${column.name}"`).join(", "));
  const source = sql`select ${columns} from json_populate_recordset(null::${name}, ${json}::json)`;
  return db.execute(sql`insert into ${name} (${columns}) ${source} ${tail}`);
};

/** A value as the text input of its type takes it; dates are written by JSON itself. */
const wireOf = (value: unknown): unknown => (value instanceof Uint8Array ? `\\x${value.toHex()}` : (value ?? null));

/** A page of a list whose ids are UUIDv7: newest first, from below `after`. */
export interface Page {
  after: string | null;
  limit: number;
}

/** What a page holds, and the id to go on after: null on the last page. */
export interface Paged<Row> {
  rows: Row[];
  next: string | null;
}

/** The parts of a query for one page and one row more, which `paged` takes off again. */
export const pageOf = (id: AnyPgColumn, { after, limit }: Page, where: readonly (SQL | undefined)[]) => ({
  where: and(...where, after === null ? undefined : lt(id, after)),
  orderBy: desc(id),
  limit: limit + 1,
});

/** The page of `rows` that `pageOf` asked for. */
export const paged = <Row extends { id: string }>(rows: Row[], { limit }: Page): Paged<Row> => ({
  rows: rows.slice(0, limit),
  next: rows.length > limit ? (rows[limit - 1]?.id ?? null) : null,
});
