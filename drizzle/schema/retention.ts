import { sql } from "drizzle-orm";
import { boolean, check, pgTable } from "drizzle-orm/pg-core";
import { timestamp } from "./columns.ts";

/** One row: when retention last saw the database's clock, by that clock, and the jump that holds retention back. */
export const retentionClock = pgTable(
  "retention_clock",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    seenAt: timestamp("seen_at").notNull(),
    /** The last time before a jump of more than a day, and the first after it; null while retention is not paused. */
    jumpedFrom: timestamp("jumped_from"),
    jumpedAt: timestamp("jumped_at"),
    /** The UTC day on which data was dropped last. */
    droppedOn: timestamp("dropped_on"),
    /** Until then an operator lets more than one day of data be dropped on a day. */
    confirmedUntil: timestamp("confirmed_until"),
  },
  (table) => [check("retention_clock_singleton", sql`${table.singleton}`)],
);
