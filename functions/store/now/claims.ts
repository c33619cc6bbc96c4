import { lineClaim } from "#drizzle/schema/now.ts";
import type { Executor } from "../database/database.ts";
import { deleterOf, hasRows, lockerOf, updaterOf } from "../database/statements.ts";

/** A claim's row. */
export type ClaimRow = typeof lineClaim.$inferSelect;

/** Finds all claims. */
export const findClaims = (db: Executor): Promise<ClaimRow[]> => db.select().from(lineClaim);

/** Finds all claims and locks them until the transaction ends. */
export const lockClaims = (tx: Executor): Promise<ClaimRow[]> =>
  tx.select().from(lineClaim).orderBy(lineClaim.id).for("update");

/** Inserts a claim. Returns false if its line has one. */
export const insertClaim = (tx: Executor, row: ClaimRow): Promise<boolean> =>
  hasRows(tx.insert(lineClaim).values(row).onConflictDoNothing().returning());

/** Finds a claim and locks its row until the transaction ends. */
export const lockClaim = lockerOf(lineClaim);

/** Finds the claim of a line by its key and locks its row until the transaction ends. */
export const lockClaimOf = lockerOf(lineClaim, lineClaim.key);

/** Changes a claim. */
export const updateClaim = updaterOf(lineClaim);

/** Deletes a claim. */
export const deleteClaim = deleterOf(lineClaim);
