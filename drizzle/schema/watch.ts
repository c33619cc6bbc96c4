import { bigserial, index } from "drizzle-orm/pg-core";
import type { CommonFactor, WatchEventKind, WatchMessageBody } from "#proto/watch/watch.ts";
import {
  boolean,
  counter,
  integer,
  jsonText,
  nullable,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/** A filter of the fleet, how many hosts may match it, and for how long more may; and how it stands. */
export const watch = table("watch", {
  id: uuid().primaryKey(),
  name: text().unique("watch_name"),
  /** A query of the language of `/fleet`; its relative times are of each evaluation. */
  filter: text(),
  moreThan: integer(),
  forSeconds: integer(),
  receivers: text().array().notNull(),
  /** Counts the changes of the columns above. */
  revision: integer(),
  createdAt: timestamp(),
  createdBy: uuid(),
  createdByName: text(),
  silencedUntil: nullable.timestamp(),
  silencedBy: nullable.text(),
  silenceReason: nullable.text(),
  isFiring: boolean(),
  /** When `isFiring` last changed. */
  changedAt: timestamp(),
  /** While it fires: since when more hosts matched than allowed. */
  firingSince: nullable.timestamp(),
  /** Since when the count has contradicted `isFiring`, and how much of this time counts; null and 0 while it does not. */
  contrarySince: nullable.timestamp(),
  contraryMs: counter(),
  /** The count of the message that it fires; null without one, or after one that it has ended. */
  announcedCount: nullable.integer(),
  count: nullable.integer(),
  evaluatedAt: nullable.timestamp(),
  /** Why it could not be evaluated. */
  fault: nullable.text(),
  commonFactor: jsonText<CommonFactor>(),
  /** The watch whose message says what this one's would. */
  explainedBy: nullable.uuid(),
});

/** The history of a watch; the audit log has the changes of its definition. */
export const watchEvent = table(
  "watch_event",
  {
    /** In the order in which they were written. */
    position: bigserial({ mode: "number" }).primaryKey(),
    watchId: uuid().references(() => watch.id, { onDelete: "cascade" }),
    at: timestamp(),
    kind: text().$type<WatchEventKind>(),
    count: nullable.integer(),
    receiver: nullable.text(),
    detail: nullable.text(),
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
    watchId: uuid(),
    receiver: text(),
    body: jsonText<WatchMessageBody>().notNull(),
    createdAt: timestamp(),
    /** Tells each claim from the ones before. */
    attempts: integer(),
    /** Attempts in a row that failed. */
    failures: integer(),
    nextAttemptAt: timestamp(),
    /** A core is sending it until then. */
    leasedUntil: nullable.timestamp(),
    /** The receiver has it and wants it repeated; null before. */
    deliveredAt: nullable.timestamp(),
    lastError: nullable.text(),
  },
  (columns) => [
    index("watch_message_order").on(columns.watchId, columns.receiver, columns.position),
  ],
);
