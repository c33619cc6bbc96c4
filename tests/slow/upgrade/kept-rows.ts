import { isDeepStrictEqual } from "node:util";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

const keptTables = [
  "person",
  "authentication_identity",
  "enrollment_policy",
  "bootstrap_token",
  "certificate",
  "collector_config",
  "config_assignment",
  "audit_event",
] as const;

/** Returns the rows that an operator would miss, without the columns that a running core changes. */
export const keptRows = async (sql: SqlClient) => {
  const rows = await Promise.all(
    keptTables.map(
      (table) => sql`
        select ${table} || coalesce(to_jsonb(t)->>'id', to_jsonb(t)->>'user_id') as key, to_jsonb(t) - 'synced_at' as row
        from ${sql(table)} t`,
    ),
  );
  return new Map(rows.flat().map(({ key, row }) => [key, row]));
};

/** Returns the rows of `before` that are gone, or have another value in a column that they had. */
export const changedRows = (
  before: Map<string, Record<string, unknown>>,
  after: Map<string, Record<string, unknown>>,
) =>
  [...before].flatMap(([key, row]) => {
    const now = after.get(key);
    const isKept = Object.entries(row).every(
      ([column, value]) => now !== undefined && isDeepStrictEqual(now[column], value),
    );
    return isKept ? [] : [key];
  });
