import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
} from "drizzle-orm/pg-core";
import { bytea, timestamp } from "./columns.ts";

/** The cursor of a queue: its last committed sequence. Rows and cursor change in one transaction, under this row's lock. */
export const ingestCursor = pgTable(
  "ingest_cursor",
  {
    hostId: text("host_id").notNull(),
    queueId: bytea("queue_id").notNull(),
    cursor: bigint("cursor", { mode: "bigint" }).notNull(),
    /** The session that opened the queue last: only its frames may move the cursor. Null while no client has named one. */
    sessionId: bytea("session_id"),
    updatedAt: timestamp("updated_at").notNull(),
    /** Sequences since the queue's last account, by what became of them. */
    rangeStored: bigint("range_stored", { mode: "bigint" }).notNull().default(sql`0`),
    rangeRejected: bigint("range_rejected", { mode: "bigint" }).notNull().default(sql`0`),
    rangeDiscarded: bigint("range_discarded", { mode: "bigint" }).notNull().default(sql`0`),
    /** By a restore of the database. */
    rangeLost: bigint("range_lost", { mode: "bigint" }).notNull().default(sql`0`),
    /** As `range_digest` of an account. */
    rangeDigest: bytea("range_digest"),
    /** The cursor through which they are counted: another one after a core that does not count has moved it. Null: not counted yet. */
    countedThrough: bigint("counted_through", { mode: "bigint" }),
  },
  // No index holds a column that every commit changes, so that an update stays on its page (HOT). A host has few rows to sort by age.
  (table) => [primaryKey({ columns: [table.hostId, table.queueId] })],
);

/**
 * The queues of hosts that core knows of. Each binds the hours of its host, from its first account (without one, from its first sight) until it ends:
 * an hour is complete only if every queue that binds it is accounted for. Beyond 64 open queues of a host, the others are one row without an id.
 */
export const ingestQueue = pgTable(
  "ingest_queue",
  {
    hostId: text("host_id").notNull(),
    queueId: bytea("queue_id").notNull(),
    firstSeenAt: timestamp("first_seen_at").notNull(),
    /** When it was last opened or accounted for; its cursor may have moved since. */
    lastSeenAt: timestamp("last_seen_at").notNull(),
    /** What its client says. */
    sendsAccounts: boolean("sends_accounts").notNull(),
    /** Until when it binds hours, and why no longer (`queueEndings`, proto/completeness/hour-state.ts); null: it is open. */
    endedAt: timestamp("ended_at"),
    ending: text("ending"),
    /** A copy of it has sent. An account of another queue that follows it does not end it then: it may be the copy's. */
    isForked: boolean("is_forked").notNull().default(false),
    /** When it ended last, or was opened again after that. */
    changedAt: timestamp("changed_at"),
  },
  (table) => [
    primaryKey({ columns: [table.hostId, table.queueId] }),
    index("ingest_queue_open").on(table.lastSeenAt).where(sql`${table.endedAt} is null`),
    index("ingest_queue_changed").on(table.changedAt).where(sql`${table.changedAt} is not null`),
  ],
);

/** The time of the last committed envelope of a host, discarded ones included. */
export const ingestHost = pgTable("ingest_host", {
  hostId: text("host_id").primaryKey(),
  lastEnvelopeAt: timestamp("last_envelope_at").notNull(),
});

/**
 * How many envelopes core stored for a host in an hour, by kind: counted in the transaction that stores them. After two days its rows become
 * `volume_day`. Kinds without a meaning of their own in docs/protocol.md are counted as `other`, so that a host cannot fill the table.
 */
export const ingestHour = pgTable(
  "ingest_hour",
  {
    hostId: text("host_id").notNull(),
    kind: text("kind").notNull(),
    hour: timestamp("hour").notNull(),
    envelopes: bigint("envelopes", { mode: "number" }).notNull(),
    payloadBytes: bigint("payload_bytes", { mode: "number" }).notNull(),
  },
  // As with "ingest_cursor", no index holds a column that every commit changes.
  (table) => [primaryKey({ columns: [table.hostId, table.hour, table.kind] })],
);

/** The acknowledged envelopes of a host that a restore from a backup lost. Only affected hosts have a row. */
export const ingestGap = pgTable("ingest_gap", {
  hostId: text("host_id").primaryKey(),
  ranges: bigint("ranges", { mode: "number" }).notNull(),
  /** Sequences in these ranges; those that never had an envelope count too. At most 2^53 - 1, since hosts report them. */
  recordsMax: bigint("records_max", { mode: "number" }).notNull(),
  lastAt: timestamp("last_at").notNull(),
});

/**
 * How many envelopes were ever stored in PostgreSQL, counted in the transaction that stores them: the sum of all rows, one for each backend
 * of the server, so that no transaction waits for another one. Row 0 has those of backends that have ended.
 */
export const ingestStored = pgTable("ingest_stored", {
  backend: integer("backend").primaryKey(),
  envelopes: bigint("envelopes", { mode: "number" }).notNull(),
});

/** One row: the sink that core used last, so that a queue which comes from another one is not taken for a restored database. */
export const ingestSink = pgTable(
  "ingest_sink",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    kind: text("kind").notNull(),
    /** When core last began to use another sink than before; null if never. */
    changedAt: timestamp("changed_at"),
  },
  (table) => [check("ingest_sink_singleton", sql`${table.singleton}`)],
);

// The telemetry is partitioned, which drizzle-kit cannot express: drizzle/sql/ingest-block.sql, and ingest-envelope.sql for what versions
// before blocks have stored.
