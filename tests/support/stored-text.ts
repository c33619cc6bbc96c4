import { sql } from "drizzle-orm";
import type { Database } from "#functions/store/database/database.ts";

/** Returns the tables of which some row has the text in it. */
export const tablesWith = async (db: Database, text: string): Promise<string[]> => {
  const tables = await db.execute<{ name: string }>(
    sql`select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await db.execute(
      sql`select 1 from ${sql.identifier(name)} t where t::text like ${`%${text}%`} limit 1`,
    );
    if (rows.length > 0) found.push(name);
  }
  return found;
};
