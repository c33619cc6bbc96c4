import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  integer,
  pgTable,
  timestamp as pgTimestamp,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import { timestamp } from "./columns.ts";

/** How many hosts have which state in an hour: the sum of `completeness_day`, which changes in the same transaction. */
export const completenessHour = pgTable("completeness_hour", {
  /** The start of the hour. */
  hour: timestamp("hour").primaryKey(),
  /** In the order of `hourStates` (proto/completeness/hour-state.ts). */
  hosts: integer("hosts").array().notNull(),
});

/** One row: how far the states of hours are settled, and the core that settles them until `leaseUntil`. */
export const completenessProgress = pgTable(
  "completeness_progress",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    owner: uuid("owner"),
    /** By the database's clock. */
    leaseUntil: pgTimestamp("lease_until", { withTimezone: true }),
    /** The start of the last hour whose states are settled; null for none. */
    hour: timestamp("hour"),
    /** Accounts that were received before it have settled their hours. */
    receivedBefore: timestamp("received_before"),
    /** Accounts whose ranges every export of this stream has delivered, through the sequence, have settled their hours. */
    deliveredStream: text("delivered_stream"),
    deliveredThrough: bigint("delivered_through", { mode: "bigint" }),
  },
  (table) => [check("completeness_progress_singleton", sql`${table.singleton}`)],
);
