import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  index,
  integer,
  pgTable,
  primaryKey,
  smallint,
  text,
} from "drizzle-orm/pg-core";
import { bytea, timestamp } from "./columns.ts";

/**
 * What hosts state of a time (`Account` in ingest.proto), and what core counted of its sequences when it came. Also those that core refuses,
 * as evidence. Never changed, but for the number of its transaction when a dump is adopted.
 */
export const ingestAccount = pgTable(
  "ingest_account",
  {
    hostId: text("host_id").notNull(),
    queueId: bytea("queue_id").notNull(),
    number: bigint("number", { mode: "bigint" }).notNull(),
    /** Its hash, which the next account of the queue names. */
    sha256: bytea("sha256").notNull(),
    body: bytea("body").notNull(),
    signature: bytea("signature").notNull(),
    /** Why core refuses it; null for an accepted one. */
    refused: text("refused"),
    /** Whether the next account follows it. */
    isLinked: boolean("is_linked").notNull(),
    /** Accounts between the one before and this one are lost. */
    followsGap: boolean("follows_gap").notNull(),
    /** By the host's clock. */
    fromAt: timestamp("from_at").notNull(),
    toAt: timestamp("to_at").notNull(),
    isStopped: boolean("is_stopped").notNull(),
    lastSequence: bigint("last_sequence", { mode: "bigint" }).notNull(),
    accepted: bigint("accepted", { mode: "bigint" }).notNull(),
    /** Whether core has counted exactly its range; not for what an older core stored, or another queue's. */
    isChecked: boolean("is_checked").notNull(),
    stored: bigint("stored", { mode: "bigint" }).notNull(),
    rejected: bigint("rejected", { mode: "bigint" }).notNull(),
    discarded: bigint("discarded", { mode: "bigint" }).notNull(),
    /** By a restore of the database. */
    lost: bigint("lost", { mode: "bigint" }).notNull(),
    /** Accepted, and never received. */
    missing: bigint("missing", { mode: "bigint" }).notNull(),
    /** Of the range's blocks: the SHA-256 of that of the blocks before and the digest of the last one; null for none. */
    rangeDigest: bytea("range_digest"),
    /** Where its range is stored: `postgres` or `nats`. */
    sink: text("sink").notNull(),
    /** The stream's counts of the queue through this account (`formatTotals`); null for PostgreSQL, and where they are unknown. */
    streamTotals: text("stream_totals"),
    /** That stream, with the time of its creation, and its sequence through which the account's range is stored; null for PostgreSQL. */
    stream: text("stream"),
    streamEnd: bigint("stream_end", { mode: "bigint" }),
    receivedAt: timestamp("received_at").notNull(),
    /** Above that of every block of the range: an export whose position has passed it has delivered them. */
    xid: bigint("xid", { mode: "bigint" }).notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.hostId, table.queueId, table.number, table.sha256] }),
    index("ingest_account_host").on(table.hostId, table.toAt),
    index("ingest_account_received").on(table.receivedAt),
    index("ingest_account_xid").on(table.xid),
    index("ingest_account_stream").on(table.streamEnd).where(sql`${table.stream} is not null`),
  ],
);

/**
 * Sequences of a queue that its stream lost after it had acknowledged them (`ingest.gap`). They are taken off the accounts that have them, also
 * off those that were settled before.
 */
export const ingestLostRange = pgTable(
  "ingest_lost_range",
  {
    hostId: text("host_id").notNull(),
    queueId: bytea("queue_id").notNull(),
    fromSequence: bigint("from_sequence", { mode: "bigint" }).notNull(),
    throughSequence: bigint("through_sequence", { mode: "bigint" }).notNull(),
    recordedAt: timestamp("recorded_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.hostId, table.queueId, table.fromSequence] }),
    index("ingest_lost_range_recorded").on(table.recordedAt),
  ],
);

/** The states of a host's hours on a UTC day, as of the last statement that had it. */
export const completenessDay = pgTable(
  "completeness_day",
  {
    hostId: text("host_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    /** A byte for each hour: the index in `hourStates` (proto/completeness/hour-state.ts) plus one; 0: not decided. */
    states: bytea("states").notNull(),
    /** What of the hours is not plainly complete, as JSON by hour; null for none. */
    details: text("details"),
    /** Hours that are short, late or silent, or for which core was out (`incompleteStates`). */
    incompleteHours: smallint("incomplete_hours").notNull(),
    /** Hours whose accounts an export has not passed, as bits, and the highest `xid` of them. */
    undelivered: integer("undelivered").notNull(),
    xid: bigint("xid", { mode: "bigint" }),
  },
  (table) => [
    primaryKey({ columns: [table.hostId, table.day] }),
    // What is deleted, and a day that is read whole.
    index("completeness_day_day").on(table.day),
    // With all that ranks hosts, so that it reads no row.
    index("completeness_day_ranked")
      .on(table.day, table.hostId, table.incompleteHours, table.states)
      .where(sql`${table.incompleteHours} > 0`),
    index("completeness_day_undelivered").on(table.day).where(sql`${table.undelivered} <> 0`),
  ],
);
