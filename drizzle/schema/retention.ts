import { sql } from "drizzle-orm";
import { check } from "drizzle-orm/pg-core";
import { boolean, nullable, table, timestamp } from "./columns.ts";

/** One row: when retention last saw the database's clock, by that clock, and the jump that holds retention back. */
export const retentionClock = table(
  "retention_clock",
  {
    singleton: boolean().primaryKey().default(true),
    seenAt: timestamp(),
    /** The last time before a jump of more than a day, and the first after it; null while retention is not paused. */
    jumpedFrom: nullable.timestamp(),
    jumpedAt: nullable.timestamp(),
    /** The UTC day on which data was dropped last. */
    droppedOn: nullable.timestamp(),
    /** Until then an operator lets more than one day of data be dropped on a day. */
    confirmedUntil: nullable.timestamp(),
  },
  (columns) => [check("retention_clock_singleton", sql`${columns.singleton}`)],
);
