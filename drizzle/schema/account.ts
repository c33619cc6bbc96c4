import { sql } from "drizzle-orm";
import { index, smallint } from "drizzle-orm/pg-core";
import {
  bigint,
  boolean,
  bytea,
  integer,
  nullable,
  primaryKeyOf,
  table,
  text,
  timestamp,
} from "./columns.ts";

/**
 * What hosts state of a time (`Account` in ingest.proto), and what core counted of its sequences when it came. Also those that core refuses,
 * as evidence. Never changed, but for the number of its transaction when a dump is adopted.
 */
export const ingestAccount = table(
  "ingest_account",
  {
    hostId: text(),
    queueId: bytea(),
    number: bigint(),
    /** Its hash, which the next account of the queue names. */
    sha256: bytea(),
    body: bytea(),
    signature: bytea(),
    /** Why core refuses it; null for an accepted one. */
    refused: nullable.text(),
    /** Whether the next account follows it. */
    isLinked: boolean(),
    /** Accounts between the one before and this one are lost. */
    followsGap: boolean(),
    /** By the host's clock. */
    fromAt: timestamp(),
    toAt: timestamp(),
    isStopped: boolean(),
    lastSequence: bigint(),
    accepted: bigint(),
    /** Whether core has counted exactly its range; not for what an older core stored, or another queue's. */
    isChecked: boolean(),
    stored: bigint(),
    rejected: bigint(),
    discarded: bigint(),
    /** By a restore of the database. */
    lost: bigint(),
    /** Accepted, and never received. */
    missing: bigint(),
    /** Of the range's blocks: the SHA-256 of that of the blocks before and the digest of the last one; null for none. */
    rangeDigest: nullable.bytea(),
    /** Where its range is stored: `postgres` or `nats`. */
    sink: text(),
    /** The stream's counts of the queue through this account (`formatTotals`); null for PostgreSQL, and where they are unknown. */
    streamTotals: nullable.text(),
    /** That stream, with the time of its creation, and its sequence through which the account's range is stored; null for PostgreSQL. */
    stream: nullable.text(),
    streamEnd: nullable.bigint(),
    receivedAt: timestamp(),
    /** Above that of every block of the range: an export whose position has passed it has delivered them. */
    xid: bigint(),
  },
  (columns) => [
    primaryKeyOf(columns.hostId, columns.queueId, columns.number, columns.sha256),
    index("ingest_account_host").on(columns.hostId, columns.toAt),
    index("ingest_account_received").on(columns.receivedAt),
    index("ingest_account_xid").on(columns.xid),
    index("ingest_account_stream").on(columns.streamEnd).where(sql`${columns.stream} is not null`),
  ],
);

/**
 * Sequences of a queue that its stream lost after it had acknowledged them (`ingest.gap`). They are taken off the accounts that have them, also
 * off those that were settled before.
 */
export const ingestLostRange = table(
  "ingest_lost_range",
  {
    hostId: text(),
    queueId: bytea(),
    fromSequence: bigint(),
    throughSequence: bigint(),
    recordedAt: timestamp(),
  },
  (columns) => [
    primaryKeyOf(columns.hostId, columns.queueId, columns.fromSequence),
    index("ingest_lost_range_recorded").on(columns.recordedAt),
  ],
);

/** The states of a host's hours on a UTC day, as of the last statement that had it. */
export const completenessDay = table(
  "completeness_day",
  {
    hostId: text(),
    /** Days since 1970. */
    day: integer(),
    /** A byte for each hour: the index in `hourStates` (proto/completeness/hour-state.ts) plus one; 0: not decided. */
    states: bytea(),
    /** What of the hours is not plainly complete, as JSON by hour; null for none. */
    details: nullable.text(),
    /** Hours that are short, late or silent, or for which core was out (`incompleteStates`). */
    incompleteHours: smallint().notNull(),
    /** Hours whose accounts an export has not passed, as bits, and the highest `xid` of them. */
    undelivered: integer(),
    xid: nullable.bigint(),
  },
  (columns) => [
    primaryKeyOf(columns.hostId, columns.day),
    // What is deleted, and a day that is read whole.
    index("completeness_day_day").on(columns.day),
    // With all that ranks hosts, so that it reads no row.
    index("completeness_day_ranked")
      .on(columns.day, columns.hostId, columns.incompleteHours, columns.states)
      .where(sql`${columns.incompleteHours} > 0`),
    index("completeness_day_undelivered").on(columns.day).where(sql`${columns.undelivered} <> 0`),
  ],
);
