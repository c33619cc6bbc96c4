import { getTableColumns, type InferInsertModel, type SQL, sql } from "drizzle-orm";
import { getTableConfig, type PgTable } from "drizzle-orm/pg-core";
import type { Executor } from "./database.ts";

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
