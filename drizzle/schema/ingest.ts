import { bigint, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import { bytea, moment } from "./columns.ts";

/** How far a queue of a host is committed. Rows and cursor change in one transaction, under this row's lock. */
export const ingestCursor = pgTable(
  "ingest_cursor",
  {
    hostId: text("host_id").notNull(),
    queueId: bytea("queue_id").notNull(),
    cursor: bigint("cursor", { mode: "bigint" }).notNull(),
    updatedAt: moment("updated_at").notNull(),
  },
  // No index holds what every commit changes, so that an update stays on its page (HOT). A host has few rows to sort by age.
  (table) => [primaryKey({ columns: [table.hostId, table.queueId] })],
);

/** When a host last had an envelope committed, discarded ones included. */
export const ingestHost = pgTable("ingest_host", {
  hostId: text("host_id").primaryKey(),
  lastEnvelopeAt: moment("last_envelope_at").notNull(),
});

// `ingest_envelope` is partitioned by day, which drizzle-kit cannot express: it stands in a hand-written migration and is
// written by COPY alone.
