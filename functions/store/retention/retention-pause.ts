import { sql } from "drizzle-orm";
import { dayMs } from "#kit/clock.ts";
import type { Executor } from "../database/database.ts";
import { asDate, readRow } from "../database/statements.ts";

/** A jump of the database's clock that pauses retention. */
export interface RetentionPause {
  /** The last time of the clock before the jump, and the first after it. */
  from: Date;
  to: Date;
  /** When the pause ends by itself, by the database's clock. */
  until: Date;
}

/** Returns the pause of retention; null without one. */
export const findRetentionPause = async (db: Executor): Promise<RetentionPause | null> => {
  const row = await readRow(
    db,
    { from: asDate, to: asDate },
    sql`select jumped_from as from, jumped_at as to from retention_clock where jumped_from is not null and jumped_at is not null`,
  );
  return row === undefined ? null : pauseBetween(row.from, row.to);
};

/** Returns the pause that a jump begins. */
export const pauseBetween = (from: Date, to: Date): RetentionPause => ({
  from,
  to,
  until: new Date(to.getTime() + dayMs),
});
