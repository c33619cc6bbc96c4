import { sql } from "drizzle-orm";
import { bigint, index, integer, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import { byteText } from "./columns.ts";

/** What core stored on a UTC day: the sum of its hours, and for a while the hours themselves, 24 of each. */
const dayColumns = {
  kind: text("kind").notNull(),
  /** Days since 1970. */
  day: integer("day").notNull(),
  envelopes: bigint("envelopes", { mode: "number" }).notNull(),
  payloadBytes: bigint("payload_bytes", { mode: "number" }).notNull(),
  hourEnvelopes: bigint("hour_envelopes", { mode: "number" }).array(),
  hourBytes: bigint("hour_bytes", { mode: "number" }).array(),
};

/** What core stored for a host on a day, by kind: the rows of `ingest_hour` become this once they are two days old. */
export const volumeDay = pgTable("volume_day", { hostId: text("host_id").notNull(), ...dayColumns }, (table) => [
  primaryKey({ columns: [table.hostId, table.day, table.kind] }),
  index("volume_day_day").on(table.day),
  index("volume_day_hours").on(table.day).where(sql`${table.hourBytes} is not null`),
]);

/** The same of all hosts: the sum of `volume_day`, which changes in the same transaction. */
export const volumeTotal = pgTable("volume_total", dayColumns, (table) => [
  primaryKey({ columns: [table.day, table.kind] }),
]);

/** What hosts accepted on a day by kind and source, by their own accounts and clocks. */
export const volumeSource = pgTable(
  "volume_source",
  {
    hostId: text("host_id").notNull(),
    day: integer("day").notNull(),
    kind: text("kind").notNull(),
    source: text("source").notNull(),
    envelopes: bigint("envelopes", { mode: "number" }).notNull(),
    payloadBytes: bigint("payload_bytes", { mode: "number" }).notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.hostId, table.day, table.kind, table.source] }),
    index("volume_source_day").on(table.day),
  ],
);

/** The bytes that core stored for a host in the last 24 whole hours, and those of its usual day; updated every hour. */
export const hostVolume = pgTable("host_volume", {
  hostId: byteText("host_id").primaryKey(),
  dayBytes: bigint("day_bytes", { mode: "number" }).notNull(),
  /** The median of the last two weeks; null while fewer than three days are known. */
  usualBytes: bigint("usual_bytes", { mode: "number" }),
});
