import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  integer,
  timestamp as pgTimestamp,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import { table, timestamp } from "./columns.ts";

/** How many hosts have which state in an hour: the sum of `completeness_day`, which changes in the same transaction. */
export const completenessHour = table("completeness_hour", {
  /** The start of the hour. */
  hour: timestamp().primaryKey(),
  /** In the order of `hourStates` (proto/completeness/hour-state.ts). */
  hosts: integer().array().notNull(),
});

/** One row: how far the states of hours are settled, and the core that settles them until `leaseUntil`. */
export const completenessProgress = table(
  "completeness_progress",
  {
    singleton: boolean().primaryKey().default(true),
    owner: uuid(),
    /** By the database's clock. */
    leaseUntil: pgTimestamp({ withTimezone: true }),
    /** The start of the last hour whose states are settled; null for none. */
    hour: timestamp(),
    /** Accounts that were received before it have settled their hours. */
    receivedBefore: timestamp(),
    /** Accounts whose ranges every export of this stream has delivered, through the sequence, have settled their hours. */
    deliveredStream: text(),
    deliveredThrough: bigint({ mode: "bigint" }),
  },
  (columns) => [check("completeness_progress_singleton", sql`${columns.singleton}`)],
);
