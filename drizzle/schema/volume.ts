import { sql } from "drizzle-orm";
import { index } from "drizzle-orm/pg-core";
import {
  byteText,
  counter,
  integer,
  nullable,
  primaryKeyOf,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/** What core stored on a UTC day: the sum of its hours, and for a while the hours themselves, 24 of each. */
const dayColumns = {
  kind: text(),
  /** Days since 1970. */
  day: integer(),
  envelopes: counter(),
  payloadBytes: counter(),
  hourEnvelopes: counter().array(),
  hourBytes: counter().array(),
};

/** What core stored for a host on a day, by kind: the rows of `ingest_hour` become this once they are two days old. */
export const volumeDay = table("volume_day", { hostId: text(), ...dayColumns }, (columns) => [
  primaryKeyOf(columns.hostId, columns.day, columns.kind),
  index("volume_day_day").on(columns.day),
  index("volume_day_hours").on(columns.day).where(sql`${columns.hourBytes} is not null`),
]);

/** The same of all hosts: the sum of `volume_day`, which changes in the same transaction. */
export const volumeTotal = table("volume_total", dayColumns, (columns) => [
  primaryKeyOf(columns.day, columns.kind),
]);

/** What hosts accepted on a day by kind and source, by their own accounts and clocks. */
export const volumeSource = table(
  "volume_source",
  {
    hostId: text(),
    day: integer(),
    kind: text(),
    source: text(),
    envelopes: counter(),
    payloadBytes: counter(),
  },
  (columns) => [
    primaryKeyOf(columns.hostId, columns.day, columns.kind, columns.source),
    index("volume_source_day").on(columns.day),
  ],
);

/** The bytes that core stored for a host in the last 24 whole hours, and those of its usual day; updated every hour. */
export const hostVolume = table("host_volume", {
  hostId: byteText().primaryKey(),
  dayBytes: counter(),
  /** The median of the last two weeks; null while fewer than three days are known. */
  usualBytes: nullable.counter(),
});

/** The bytes that core stores of each host in an hour, for the hosts of a filter (docs/volume.md). */
export const volumeBudget = table("volume_budget", {
  name: byteText().primaryKey(),
  /** A query of the language of `/fleet`. */
  filter: text(),
  bytesPerHour: counter(),
  changedAt: timestamp(),
  changedByName: text(),
});

/** The hosts that have sent their budget of this hour: core stores nothing more of them until `until`. */
export const heldHost = table("held_host", {
  hostId: byteText().primaryKey(),
  identityId: uuid(),
  budget: text(),
  since: timestamp(),
  /** The end of the hour. */
  until: timestamp(),
});
