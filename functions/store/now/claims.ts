import { eq, getTableColumns, sql } from "drizzle-orm";
import { lineClaim } from "#drizzle/schema/now.ts";
import { person } from "#drizzle/schema/operator.ts";
import type { Executor } from "../database/database.ts";
import { deleterOf, firstRow, hasRows, lockerOf, updaterOf } from "../database/statements.ts";

/** A claim's row. */
export type ClaimRow = typeof lineClaim.$inferSelect;

/** A claim, and whether its person may still see lines; a workload, which the directory does not know, may. */
export type HeldClaim = ClaimRow & { hasAccess: boolean };

const hasAccess = sql<boolean>`coalesce((select bool_or(${person.status} in ('active', 'held') and 'audit' = any(${person.scopes})) from ${person}
  where ${person.primaryEmail} = ${lineClaim.takenBy}), true)`;

const selectHeld = (db: Executor) =>
  db.select({ ...getTableColumns(lineClaim), hasAccess }).from(lineClaim);

/** Finds all claims. */
export const findClaims = (db: Executor): Promise<HeldClaim[]> => selectHeld(db);

/** Finds all claims and locks them until the transaction ends. */
export const lockClaims = (tx: Executor): Promise<ClaimRow[]> =>
  tx.select().from(lineClaim).orderBy(lineClaim.id).for("update");

/** Inserts a claim. Returns false if its line has one. */
export const insertClaim = (tx: Executor, row: ClaimRow): Promise<boolean> =>
  hasRows(tx.insert(lineClaim).values(row).onConflictDoNothing().returning());

/** Finds a claim and locks its row until the transaction ends. */
export const lockClaim = lockerOf(lineClaim);

/** Finds the claim of a line by its key and locks its row until the transaction ends. */
export const lockClaimOf = (tx: Executor, key: string): Promise<HeldClaim | undefined> =>
  firstRow(selectHeld(tx).where(eq(lineClaim.key, key)).for("no key update"));

/** Changes a claim. */
export const updateClaim = updaterOf(lineClaim);

/** Deletes a claim. */
export const deleteClaim = deleterOf(lineClaim);
