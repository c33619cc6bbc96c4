import { index } from "drizzle-orm/pg-core";
import {
  bigint,
  bytea,
  counter,
  integer,
  jsonText,
  nullable,
  primaryKeyOf,
  table,
  text,
  timestamp,
} from "./columns.ts";

/**
 * How far an export has come: the envelopes whose `xid` is below `position` are delivered or dead letters. It rises with the sequence in
 * each queue, so one number is the position of every queue. Only the process with the lease moves it.
 */
export const exportPosition = table("export_position", {
  name: text().primaryKey(),
  position: bigint(),
  /** The stream of JetStream that an earlier version exported from: such a position is refused. Null: PostgreSQL. */
  stream: nullable.text(),
  /** Written by earlier versions alone. */
  streamPending: nullable.counter(),
  /** Every envelope that is not delivered was received after this time, by the database's clock, give or take the clocks of cores. */
  positionAt: timestamp(),
  /** The process that exports, until `leaseUntil`; null when it has released the lease. */
  owner: nullable.text(),
  leaseUntil: timestamp(),
  /** Changes with the owner: an earlier owner that was paused cannot move the position. */
  epoch: integer(),
  exported: counter(),
  /** Spans, log records and data points that the backend rejected in an accepted request (OTLP's partial success). */
  rejectedItems: counter(),
  /** Envelopes that retention deleted before they were delivered. */
  lost: counter(),
  /** Envelopes that the position has passed: delivered, dead letters, lost with their host, or of a signal that is not exported. */
  passed: counter().default(0),
  /** Envelopes that were stored before the first that `passed` counts, by `ingest_stored`; null until that is known. */
  storedBefore: nullable.counter(),
  /** The server whose transaction ids `position` is one of; null until an export has begun there. */
  systemIdentifier: nullable.text(),
  databaseOid: nullable.text(),
  timeline: nullable.integer(),
  /** Why the last request failed; null while requests succeed. */
  lastError: nullable.text(),
  updatedAt: timestamp(),
});

/** An envelope that the backend of an export rejected for good, with the reason. Read and retried by `svc-server export`. */
export const exportDeadLetter = table(
  "export_dead_letter",
  {
    id: counter().primaryKey().generatedAlwaysAsIdentity(),
    name: text(),
    hostId: text(),
    queueId: bytea(),
    sequence: bigint(),
    kind: text(),
    observedAt: nullable.timestamp(),
    receivedAt: timestamp(),
    source: text(),
    attributes: jsonText<Record<string, string>>("attributes").notNull(),
    payload: bytea(),
    reason: text(),
    failedAt: timestamp(),
    /** So many of its items were rejected, and the others accepted; null: all of it was rejected. */
    rejectedItems: nullable.counter(),
  },
  (columns) => [index("export_dead_letter_name").on(columns.name, columns.id)],
);

/** The envelopes that a host lost in an export by its own fault. Only affected hosts have a row. */
export const exportHostLoss = table(
  "export_host_loss",
  {
    name: text(),
    hostId: text(),
    /** Envelopes that the backend rejected beyond the host's limit of dead letters. */
    envelopes: counter(),
    /** Why the last of them was rejected. */
    reason: text(),
    lastAt: timestamp(),
  },
  (columns) => [primaryKeyOf(columns.hostId, columns.name)],
);

/**
 * What the backend of an export rejected for good of the envelopes of a queue between two accounts, so that it is counted to the account of
 * their hour, also if that comes later. A retry that is accepted takes it off again.
 */
export const exportRejection = table(
  "export_rejection",
  {
    hostId: text(),
    queueId: bytea(),
    /** The last sequence of the account before; 0 without one. */
    afterSequence: bigint(),
    name: text(),
    /** Envelopes: dead letters, and those that are kept nowhere. */
    envelopes: counter(),
    /** Spans, log records and data points of envelopes that were accepted otherwise. */
    items: counter(),
    lastAt: timestamp(),
  },
  (columns) => [
    primaryKeyOf(columns.hostId, columns.queueId, columns.afterSequence, columns.name),
    index("export_rejection_last").on(columns.lastAt),
  ],
);
