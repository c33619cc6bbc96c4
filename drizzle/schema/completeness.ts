import { sql } from "drizzle-orm";
import { bigint, boolean, check, integer, primaryKey, text, uuid } from "drizzle-orm/pg-core";
import { bytea, counter, table, timestamp } from "./columns.ts";

/**
 * What core states of the hosts in an hour (docs/completeness-proof.md): the tree of its lines, which is an entry of the log. Never changed, but for
 * `deliveredBelow` when a dump is adopted.
 */
export const completenessStatement = table("completeness_statement", {
  /** The start of the hour. */
  hour: timestamp().primaryKey(),
  /** Of its chunks. */
  id: uuid().notNull().unique("completeness_statement_id"),
  lines: integer().notNull(),
  root: bytea().notNull(),
  entryIndex: counter().notNull().unique("completeness_statement_entry"),
  /** Accounts that were received before it, or whose transaction id is below the next one, are in this statement or an earlier one. */
  receivedBefore: timestamp().notNull(),
  seenBelow: bigint({ mode: "bigint" }).notNull(),
  /** Where the slowest export was: ranges below it are stated as delivered; null without one. */
  deliveredBelow: bigint({ mode: "bigint" }),
  /** The same of the exports from a stream: ranges through the sequence. */
  deliveredStream: text(),
  deliveredThrough: bigint({ mode: "bigint" }),
  writtenAt: timestamp().notNull(),
});

/** Lines of a statement, joined by line feeds and compressed with zstd. Those without a statement are of a core that did not finish. */
export const completenessChunk = table(
  "completeness_chunk",
  {
    statementId: uuid().notNull(),
    firstLine: integer().notNull(),
    rawBytes: integer().notNull(),
    lines: bytea().notNull(),
  },
  (columns) => [primaryKey({ columns: [columns.statementId, columns.firstLine] })],
);

/** The append-only log of all hours: entries, and their hashes as leaves of its tree. */
export const completenessLog = table("completeness_log", {
  index: counter().primaryKey(),
  entry: text().notNull(),
  hash: bytea().notNull(),
});

/** The head of the log at a size; `note` is the signed checkpoint, null while core has no key. */
export const completenessHead = table("completeness_head", {
  size: counter().primaryKey(),
  root: bytea().notNull(),
  note: text(),
});

/** One row: the core that writes a statement, until `until`. */
export const completenessWriter = table(
  "completeness_writer",
  {
    singleton: boolean().primaryKey().default(true),
    owner: uuid().notNull(),
    until: timestamp().notNull(),
  },
  (columns) => [check("completeness_writer_singleton", sql`${columns.singleton}`)],
);
