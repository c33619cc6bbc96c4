import { bigserial, boolean, index, integer, text, uuid } from "drizzle-orm/pg-core";
import type { CommonFactor, WatchEventKind, WatchMessageBody } from "#proto/watch/watch.ts";
import { counter, jsonText, table, timestamp } from "./columns.ts";

/** A filter of the fleet, how many hosts may match it, and for how long more may; and how it stands. */
export const watch = table("watch", {
  id: uuid().primaryKey(),
  name: text().notNull().unique("watch_name"),
  /** A query of the language of `/fleet`; its relative times are of each evaluation. */
  filter: text().notNull(),
  moreThan: integer().notNull(),
  forSeconds: integer().notNull(),
  receivers: text().array().notNull(),
  /** Counts the changes of the columns above. */
  revision: integer().notNull(),
  createdAt: timestamp().notNull(),
  createdBy: uuid().notNull(),
  createdByName: text().notNull(),
  silencedUntil: timestamp(),
  silencedBy: text(),
  silenceReason: text(),
  isFiring: boolean().notNull(),
  /** When `isFiring` last changed. */
  changedAt: timestamp().notNull(),
  /** While it fires: since when more hosts matched than allowed. */
  firingSince: timestamp(),
  /** Since when the count has contradicted `isFiring`, and how much of this time counts; null and 0 while it does not. */
  contrarySince: timestamp(),
  contraryMs: counter().notNull(),
  /** The count of the message that it fires; null without one, or after one that it has ended. */
  announcedCount: integer(),
  count: integer(),
  evaluatedAt: timestamp(),
  /** Why it could not be evaluated. */
  fault: text(),
  commonFactor: jsonText<CommonFactor>(),
  /** The watch whose message says what this one's would. */
  explainedBy: uuid(),
});

/** The history of a watch; the audit log has the changes of its definition. */
export const watchEvent = table(
  "watch_event",
  {
    /** In the order in which they were written. */
    position: bigserial({ mode: "number" }).primaryKey(),
    watchId: uuid()
      .notNull()
      .references(() => watch.id, { onDelete: "cascade" }),
    at: timestamp().notNull(),
    kind: text().$type<WatchEventKind>().notNull(),
    count: integer(),
    receiver: text(),
    detail: text(),
  },
  (columns) => [
    index("watch_event_watch").on(columns.watchId, columns.position),
    index("watch_event_at").on(columns.at),
  ],
);

/**
 * A message on its way to a receiver. Those of a watch to a receiver are sent in the order of their positions. It outlives its watch, so that
 * a receiver learns that the watch has ended.
 */
export const watchMessage = table(
  "watch_message",
  {
    /** Repeated with each attempt, so that a receiver can recognise it. */
    id: uuid().primaryKey(),
    position: bigserial({ mode: "number" }).notNull(),
    watchId: uuid().notNull(),
    receiver: text().notNull(),
    body: jsonText<WatchMessageBody>().notNull(),
    createdAt: timestamp().notNull(),
    /** Tells each claim from the ones before. */
    attempts: integer().notNull(),
    /** Attempts in a row that failed. */
    failures: integer().notNull(),
    nextAttemptAt: timestamp().notNull(),
    /** A core is sending it until then. */
    leasedUntil: timestamp(),
    /** The receiver has it and wants it repeated; null before. */
    deliveredAt: timestamp(),
    lastError: text(),
  },
  (columns) => [
    index("watch_message_order").on(columns.watchId, columns.receiver, columns.position),
  ],
);
