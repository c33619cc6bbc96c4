import {
  bigint,
  bigserial,
  boolean,
  index,
  integer,
  pgTable,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import type { CommonFactor, WatchEventKind, WatchMessageBody } from "../../proto/watch/watch.ts";
import { jsonText, timestamp } from "./columns.ts";

/** A filter of the fleet, how many hosts may match it, and for how long more may; and how it stands. */
export const watch = pgTable("watch", {
  id: uuid("id").primaryKey(),
  name: text("name").notNull().unique("watch_name"),
  /** A query of the language of `/fleet`; its relative times are of each evaluation. */
  filter: text("filter").notNull(),
  moreThan: integer("more_than").notNull(),
  forSeconds: integer("for_seconds").notNull(),
  receivers: text("receivers").array().notNull(),
  /** Counts the changes of the columns above. */
  revision: integer("revision").notNull(),
  createdAt: timestamp("created_at").notNull(),
  createdBy: uuid("created_by").notNull(),
  createdByName: text("created_by_name").notNull(),
  silencedUntil: timestamp("silenced_until"),
  silencedBy: text("silenced_by"),
  silenceReason: text("silence_reason"),
  isFiring: boolean("is_firing").notNull(),
  /** When `isFiring` last changed. */
  changedAt: timestamp("changed_at").notNull(),
  /** While it fires: since when more hosts matched than allowed. */
  firingSince: timestamp("firing_since"),
  /** Since when the count has contradicted `isFiring`, and how much of this time counts; null and 0 while it does not. */
  contrarySince: timestamp("contrary_since"),
  contraryMs: bigint("contrary_ms", { mode: "number" }).notNull(),
  /** The count of the message that it fires; null without one, or after one that it has ended. */
  announcedCount: integer("announced_count"),
  count: integer("count"),
  evaluatedAt: timestamp("evaluated_at"),
  /** Why it could not be evaluated. */
  fault: text("fault"),
  commonFactor: jsonText<CommonFactor>("common_factor"),
  /** The watch whose message says what this one's would. */
  explainedBy: uuid("explained_by"),
});

/** The history of a watch; the audit log has the changes of its definition. */
export const watchEvent = pgTable(
  "watch_event",
  {
    /** In the order in which they were written. */
    position: bigserial("position", { mode: "number" }).primaryKey(),
    watchId: uuid("watch_id")
      .notNull()
      .references(() => watch.id, { onDelete: "cascade" }),
    at: timestamp("at").notNull(),
    kind: text("kind").$type<WatchEventKind>().notNull(),
    count: integer("count"),
    receiver: text("receiver"),
    detail: text("detail"),
  },
  (table) => [
    index("watch_event_watch").on(table.watchId, table.position),
    index("watch_event_at").on(table.at),
  ],
);

/**
 * A message on its way to a receiver. Those of a watch to a receiver are sent in the order of their positions. It outlives its watch, so that
 * a receiver learns that the watch has ended.
 */
export const watchMessage = pgTable(
  "watch_message",
  {
    /** Repeated with each attempt, so that a receiver can recognise it. */
    id: uuid("id").primaryKey(),
    position: bigserial("position", { mode: "number" }).notNull(),
    watchId: uuid("watch_id").notNull(),
    receiver: text("receiver").notNull(),
    body: jsonText<WatchMessageBody>("body").notNull(),
    createdAt: timestamp("created_at").notNull(),
    /** Tells each claim from the ones before. */
    attempts: integer("attempts").notNull(),
    /** Attempts in a row that failed. */
    failures: integer("failures").notNull(),
    nextAttemptAt: timestamp("next_attempt_at").notNull(),
    /** A core is sending it until then. */
    leasedUntil: timestamp("leased_until"),
    /** The receiver has it and wants it repeated; null before. */
    deliveredAt: timestamp("delivered_at"),
    lastError: text("last_error"),
  },
  (table) => [index("watch_message_order").on(table.watchId, table.receiver, table.position)],
);
