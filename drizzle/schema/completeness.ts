import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  integer,
  pgTable,
  primaryKey,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import { bytea, timestamp } from "./columns.ts";

/**
 * What core states of the hosts in an hour (docs/completeness-proof.md): the tree of its lines, which is an entry of the log. Never changed, but for
 * `deliveredBelow` when a dump is adopted.
 */
export const completenessStatement = pgTable("completeness_statement", {
  /** The start of the hour. */
  hour: timestamp("hour").primaryKey(),
  /** Of its chunks. */
  id: uuid("id").notNull().unique("completeness_statement_id"),
  lines: integer("lines").notNull(),
  root: bytea("root").notNull(),
  entryIndex: bigint("entry_index", { mode: "number" })
    .notNull()
    .unique("completeness_statement_entry"),
  /** Accounts that were received before it, or whose transaction id is below the next one, are in this statement or an earlier one. */
  receivedBefore: timestamp("received_before").notNull(),
  seenBelow: bigint("seen_below", { mode: "bigint" }).notNull(),
  /** Where the slowest export was: ranges below it are stated as delivered; null without one. */
  deliveredBelow: bigint("delivered_below", { mode: "bigint" }),
  /** The same of the exports from a stream: ranges through the sequence. */
  deliveredStream: text("delivered_stream"),
  deliveredThrough: bigint("delivered_through", { mode: "bigint" }),
  writtenAt: timestamp("written_at").notNull(),
});

/** Lines of a statement, joined by line feeds and compressed with zstd. Those without a statement are of a core that did not finish. */
export const completenessChunk = pgTable(
  "completeness_chunk",
  {
    statementId: uuid("statement_id").notNull(),
    firstLine: integer("first_line").notNull(),
    rawBytes: integer("raw_bytes").notNull(),
    lines: bytea("lines").notNull(),
  },
  (table) => [primaryKey({ columns: [table.statementId, table.firstLine] })],
);

/** The append-only log of all hours: entries, and their hashes as leaves of its tree. */
export const completenessLog = pgTable("completeness_log", {
  index: bigint("index", { mode: "number" }).primaryKey(),
  entry: text("entry").notNull(),
  hash: bytea("hash").notNull(),
});

/** The head of the log at a size; `note` is the signed checkpoint, null while core has no key. */
export const completenessHead = pgTable("completeness_head", {
  size: bigint("size", { mode: "number" }).primaryKey(),
  root: bytea("root").notNull(),
  note: text("note"),
});

/** One row: the core that writes a statement, until `until`. */
export const completenessWriter = pgTable(
  "completeness_writer",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    owner: uuid("owner").notNull(),
    until: timestamp("until").notNull(),
  },
  (table) => [check("completeness_writer_singleton", sql`${table.singleton}`)],
);
