import { bigint, index, integer, primaryKey, text } from "drizzle-orm/pg-core";
import { bytea, counter, jsonText, table, timestamp } from "./columns.ts";

/**
 * How far an export has come. From PostgreSQL, the envelopes whose `xid` is below `position` are delivered or dead letters; from a stream,
 * the messages through the sequence `position`. Both rise with the sequence in each queue, so one number is the position of every queue.
 * Only the process with the lease moves it.
 */
export const exportPosition = table("export_position", {
  name: text().primaryKey(),
  position: bigint({ mode: "bigint" }).notNull(),
  /** The stream that the position is a sequence of, with the time of its creation; null: PostgreSQL. */
  stream: text(),
  /** The stream's messages behind the position, as a core last saw it. */
  streamPending: counter(),
  /** Every envelope that is not delivered was received after this time, by the database's clock, give or take the clocks of cores. */
  positionAt: timestamp().notNull(),
  /** The process that exports, until `leaseUntil`; null when it has released the lease. */
  owner: text(),
  leaseUntil: timestamp().notNull(),
  /** Changes with the owner: an earlier owner that was paused cannot move the position. */
  epoch: integer().notNull(),
  exported: counter().notNull(),
  /** Spans, log records and data points that the backend rejected in an accepted request (OTLP's partial success). */
  rejectedItems: counter().notNull(),
  /** Envelopes that retention deleted before they were delivered. */
  lost: counter().notNull(),
  /** Envelopes that the position has passed: delivered, dead letters, lost with their host, or of a signal that is not exported. */
  passed: counter().notNull().default(0),
  /** Envelopes that were stored before the first that `passed` counts, by `ingest_stored`; null until that is known. */
  storedBefore: counter(),
  /** The server whose transaction ids `position` is one of; null for a stream, and until an export has begun there. */
  systemIdentifier: text(),
  databaseOid: text(),
  timeline: integer(),
  /** Why the last request failed; null while requests succeed. */
  lastError: text(),
  updatedAt: timestamp().notNull(),
});

/** An envelope that the backend of an export rejected for good, with the reason. Read and retried by `svc-server export`. */
export const exportDeadLetter = table(
  "export_dead_letter",
  {
    id: counter().primaryKey().generatedAlwaysAsIdentity(),
    name: text().notNull(),
    hostId: text().notNull(),
    queueId: bytea().notNull(),
    sequence: bigint({ mode: "bigint" }).notNull(),
    kind: text().notNull(),
    observedAt: timestamp(),
    receivedAt: timestamp().notNull(),
    source: text().notNull(),
    attributes: jsonText<Record<string, string>>("attributes").notNull(),
    payload: bytea().notNull(),
    reason: text().notNull(),
    failedAt: timestamp().notNull(),
    /** So many of its items were rejected, and the others accepted; null: all of it was rejected. */
    rejectedItems: counter(),
  },
  (columns) => [index("export_dead_letter_name").on(columns.name, columns.id)],
);

/** The envelopes that a host lost in an export by its own fault. Only affected hosts have a row. */
export const exportHostLoss = table(
  "export_host_loss",
  {
    name: text().notNull(),
    hostId: text().notNull(),
    /** Envelopes that the backend rejected beyond the host's limit of dead letters. */
    envelopes: counter().notNull(),
    /** Why the last of them was rejected. */
    reason: text().notNull(),
    lastAt: timestamp().notNull(),
  },
  (columns) => [primaryKey({ columns: [columns.hostId, columns.name] })],
);

/**
 * What the backend of an export rejected for good of the envelopes of a queue between two accounts, so that it is counted to the account of
 * their hour, also if that comes later. A retry that is accepted takes it off again.
 */
export const exportRejection = table(
  "export_rejection",
  {
    hostId: text().notNull(),
    queueId: bytea().notNull(),
    /** The last sequence of the account before; 0 without one. */
    afterSequence: bigint({ mode: "bigint" }).notNull(),
    name: text().notNull(),
    /** Envelopes: dead letters, and those that are kept nowhere. */
    envelopes: counter().notNull(),
    /** Spans, log records and data points of envelopes that were accepted otherwise. */
    items: counter().notNull(),
    lastAt: timestamp().notNull(),
  },
  (columns) => [
    primaryKey({ columns: [columns.hostId, columns.queueId, columns.afterSequence, columns.name] }),
    index("export_rejection_last").on(columns.lastAt),
  ],
);
