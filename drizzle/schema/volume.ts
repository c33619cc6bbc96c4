import { sql } from "drizzle-orm";
import { bigint, index, integer, pgTable, primaryKey, text, uuid } from "drizzle-orm/pg-core";
import { byteText, timestamp } from "./columns.ts";

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
export const volumeDay = pgTable(
  "volume_day",
  { hostId: text("host_id").notNull(), ...dayColumns },
  (table) => [
    primaryKey({ columns: [table.hostId, table.day, table.kind] }),
    index("volume_day_day").on(table.day),
    index("volume_day_hours").on(table.day).where(sql`${table.hourBytes} is not null`),
  ],
);

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

/** The bytes that core stores of each host in an hour, for the hosts of a filter (docs/volume.md). */
export const volumeBudget = pgTable("volume_budget", {
  name: byteText("name").primaryKey(),
  /** A query of the language of `/fleet`. */
  filter: text("filter").notNull(),
  bytesPerHour: bigint("bytes_per_hour", { mode: "number" }).notNull(),
  changedAt: timestamp("changed_at").notNull(),
  changedByName: text("changed_by_name").notNull(),
});

/** The hosts that have sent their budget of this hour: core stores nothing more of them until `until`. */
export const heldHost = pgTable("held_host", {
  hostId: byteText("host_id").primaryKey(),
  identityId: uuid("identity_id").notNull(),
  budget: text("budget").notNull(),
  since: timestamp("since").notNull(),
  /** The end of the hour. */
  until: timestamp("until").notNull(),
});
