import { and, desc, lt, type SQL } from "drizzle-orm";
import type { AnyPgColumn } from "drizzle-orm/pg-core";

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
