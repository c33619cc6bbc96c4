import { sql } from "drizzle-orm";
import { boolean, check } from "drizzle-orm/pg-core";
import { table, timestamp } from "./columns.ts";

/** One row: when retention last saw the database's clock, by that clock, and the jump that holds retention back. */
export const retentionClock = table(
  "retention_clock",
  {
    singleton: boolean().primaryKey().default(true),
    seenAt: timestamp().notNull(),
    /** The last time before a jump of more than a day, and the first after it; null while retention is not paused. */
    jumpedFrom: timestamp(),
    jumpedAt: timestamp(),
    /** The UTC day on which data was dropped last. */
    droppedOn: timestamp(),
    /** Until then an operator lets more than one day of data be dropped on a day. */
    confirmedUntil: timestamp(),
  },
  (columns) => [check("retention_clock_singleton", sql`${columns.singleton}`)],
);
