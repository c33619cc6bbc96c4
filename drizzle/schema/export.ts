import { bigint, index, integer, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import { bytea, jsonText, timestamp } from "./columns.ts";

/**
 * How far an export has come. From PostgreSQL, the envelopes whose `xid` is below `position` are delivered or dead letters; from a stream,
 * the messages through the sequence `position`. Both rise with the sequence in each queue, so one number is the position of every queue.
 * Only the process with the lease moves it.
 */
export const exportPosition = pgTable("export_position", {
  name: text("name").primaryKey(),
  position: bigint("position", { mode: "bigint" }).notNull(),
  /** The stream that the position is a sequence of, with the time of its creation; null: PostgreSQL. */
  stream: text("stream"),
  /** The stream's messages behind the position, as a core last saw it. */
  streamPending: bigint("stream_pending", { mode: "number" }),
  /** Every envelope that is not delivered was received after this time, by the database's clock, give or take the clocks of cores. */
  positionAt: timestamp("position_at").notNull(),
  /** The process that exports, until `leaseUntil`; null when it has released the lease. */
  owner: text("owner"),
  leaseUntil: timestamp("lease_until").notNull(),
  /** Changes with the owner: an earlier owner that was paused cannot move the position. */
  epoch: integer("epoch").notNull(),
  exported: bigint("exported", { mode: "number" }).notNull(),
  /** Spans, log records and data points that the backend rejected in an accepted request (OTLP's partial success). */
  rejectedItems: bigint("rejected_items", { mode: "number" }).notNull(),
  /** Envelopes that retention deleted before they were delivered. */
  lost: bigint("lost", { mode: "number" }).notNull(),
  /** Envelopes that the position has passed: delivered, dead letters, lost with their host, or of a signal that is not exported. */
  passed: bigint("passed", { mode: "number" }).notNull().default(0),
  /** Envelopes that were stored before the first that `passed` counts, by `ingest_stored`; null until that is known. */
  storedBefore: bigint("stored_before", { mode: "number" }),
  /** The server whose transaction ids `position` is one of; null for a stream, and until an export has begun there. */
  systemIdentifier: text("system_identifier"),
  databaseOid: text("database_oid"),
  timeline: integer("timeline"),
  /** Why the last request failed; null while requests succeed. */
  lastError: text("last_error"),
  updatedAt: timestamp("updated_at").notNull(),
});

/** An envelope that the backend of an export rejected for good, with the reason. Read and retried by `svc-server export`. */
export const exportDeadLetter = pgTable(
  "export_dead_letter",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    name: text("name").notNull(),
    hostId: text("host_id").notNull(),
    queueId: bytea("queue_id").notNull(),
    sequence: bigint("sequence", { mode: "bigint" }).notNull(),
    kind: text("kind").notNull(),
    observedAt: timestamp("observed_at"),
    receivedAt: timestamp("received_at").notNull(),
    source: text("source").notNull(),
    attributes: jsonText<Record<string, string>>("attributes").notNull(),
    payload: bytea("payload").notNull(),
    reason: text("reason").notNull(),
    failedAt: timestamp("failed_at").notNull(),
    /** So many of its items were rejected, and the others accepted; null: all of it was rejected. */
    rejectedItems: bigint("rejected_items", { mode: "number" }),
  },
  (table) => [index("export_dead_letter_name").on(table.name, table.id)],
);

/** The envelopes that a host lost in an export by its own fault. Only affected hosts have a row. */
export const exportHostLoss = pgTable(
  "export_host_loss",
  {
    name: text("name").notNull(),
    hostId: text("host_id").notNull(),
    /** Envelopes that the backend rejected beyond the host's limit of dead letters. */
    envelopes: bigint("envelopes", { mode: "number" }).notNull(),
    /** Why the last of them was rejected. */
    reason: text("reason").notNull(),
    lastAt: timestamp("last_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.hostId, table.name] })],
);

/**
 * What the backend of an export rejected for good of the envelopes of a queue between two accounts, so that it is counted to the account of
 * their hour, also if that comes later. A retry that is accepted takes it off again.
 */
export const exportRejection = pgTable(
  "export_rejection",
  {
    hostId: text("host_id").notNull(),
    queueId: bytea("queue_id").notNull(),
    /** The last sequence of the account before; 0 without one. */
    afterSequence: bigint("after_sequence", { mode: "bigint" }).notNull(),
    name: text("name").notNull(),
    /** Envelopes: dead letters, and those that are kept nowhere. */
    envelopes: bigint("envelopes", { mode: "number" }).notNull(),
    /** Spans, log records and data points of envelopes that were accepted otherwise. */
    items: bigint("items", { mode: "number" }).notNull(),
    lastAt: timestamp("last_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.hostId, table.queueId, table.afterSequence, table.name] }),
    index("export_rejection_last").on(table.lastAt),
  ],
);
