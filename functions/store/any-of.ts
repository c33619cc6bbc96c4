import { type AnyColumn, type SQL, sql } from "drizzle-orm";

/** The column holds one of the values: one parameter, however many they are, where `inArray` would take one for each. */
export const anyOf = (column: AnyColumn, values: readonly (string | Uint8Array)[]): SQL => {
  const type = sql.raw(`${column.getSQLType()}[]`);
  return sql`${column} = any(${`{${values.map(elementOf).join(",")}}`}::${type})`;
};

const elementOf = (value: string | Uint8Array): string =>
  typeof value === "string" ? `"${value.replace(/["\\]/g, "\\$&")}"` : `"\\\\x${value.toHex()}"`;
