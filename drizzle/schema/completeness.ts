import { timestamp as pgTimestamp } from "drizzle-orm/pg-core";
import {
  bigint,
  bytea,
  counter,
  integer,
  nullable,
  primaryKeyOf,
  singleRowTable,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/**
 * What core states of the hosts in an hour (docs/completeness-proof.md): the tree of its lines, which is an entry of the log. Never changed, but for
 * `deliveredBelow` when a dump is adopted.
 */
export const completenessStatement = table("completeness_statement", {
  /** The start of the hour. */
  hour: timestamp().primaryKey(),
  /** Of its chunks. */
  id: uuid().unique("completeness_statement_id"),
  lines: integer(),
  root: bytea(),
  entryIndex: counter().unique("completeness_statement_entry"),
  /** Accounts that were received before it, or whose transaction id is below the next one, are in this statement or an earlier one. */
  receivedBefore: timestamp(),
  seenBelow: bigint(),
  /** Where the slowest export was: ranges below it are stated as delivered; null without one. */
  deliveredBelow: nullable.bigint(),
  /** The same of the exports from a stream: ranges through the sequence. */
  deliveredStream: nullable.text(),
  deliveredThrough: nullable.bigint(),
  writtenAt: timestamp(),
});

/** Lines of a statement, joined by line feeds and compressed with zstd. Those without a statement are of a core that did not finish. */
export const completenessChunk = table(
  "completeness_chunk",
  {
    statementId: uuid(),
    firstLine: integer(),
    rawBytes: integer(),
    lines: bytea(),
  },
  (columns) => [primaryKeyOf(columns.statementId, columns.firstLine)],
);

/** The append-only log of all hours: entries, and their hashes as leaves of its tree. */
export const completenessLog = table("completeness_log", {
  index: counter().primaryKey(),
  entry: text(),
  hash: bytea(),
});

/** The head of the log at a size; `note` is the signed checkpoint, null while core has no key. */
export const completenessHead = table("completeness_head", {
  size: counter().primaryKey(),
  root: bytea(),
  note: nullable.text(),
});

/** One row: the core that writes a statement, until `until`. */
export const completenessWriter = singleRowTable("completeness_writer", {
  owner: uuid(),
  until: timestamp(),
});

/** How many hosts have which state in an hour: the sum of `completeness_day`, which changes in the same transaction. */
export const completenessHour = table("completeness_hour", {
  /** The start of the hour. */
  hour: timestamp().primaryKey(),
  /** In the order of `hourStates` (proto/completeness/hour-state.ts). */
  hosts: integer().array().notNull(),
  /** While it is incomplete: the first hour of the trouble, which may be complete by now. */
  incompleteFrom: nullable.timestamp(),
});

/** One row: how far the states of hours are settled, and the core that settles them until `leaseUntil`. */
export const completenessProgress = singleRowTable("completeness_progress", {
  owner: nullable.uuid(),
  /** By the database's clock. */
  leaseUntil: pgTimestamp({ withTimezone: true }),
  /** The start of the last hour whose states are settled; null for none. */
  hour: nullable.timestamp(),
  /** Accounts that were received before it have settled their hours. */
  receivedBefore: nullable.timestamp(),
  /** Accounts whose ranges every export of this stream has delivered, through the sequence, have settled their hours. */
  deliveredStream: nullable.text(),
  deliveredThrough: nullable.bigint(),
});
