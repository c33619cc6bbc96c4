import { type AnyColumn, and, desc, lt, type SQL, sql } from "drizzle-orm";
import type { AnyPgColumn } from "drizzle-orm/pg-core";

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
