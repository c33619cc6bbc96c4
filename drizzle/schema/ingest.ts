import { sql } from "drizzle-orm";
import { index } from "drizzle-orm/pg-core";
import {
  bigint,
  boolean,
  bytea,
  counter,
  integer,
  nullable,
  primaryKeyOf,
  singleRowTable,
  table,
  text,
  timestamp,
} from "./columns.ts";

/** The cursor of a queue: its last committed sequence. Rows and cursor change in one transaction, under this row's lock. */
export const ingestCursor = table(
  "ingest_cursor",
  {
    hostId: text(),
    queueId: bytea(),
    cursor: bigint(),
    /** The session that opened the queue last: only its frames may move the cursor. Null while no client has named one. */
    sessionId: nullable.bytea(),
    updatedAt: timestamp(),
    /** Sequences since the queue's last account, by what became of them. */
    rangeStored: bigint().default(sql`0`),
    rangeRejected: bigint().default(sql`0`),
    rangeDiscarded: bigint().default(sql`0`),
    /** By a restore of the database. */
    rangeLost: bigint().default(sql`0`),
    /** As `range_digest` of an account. */
    rangeDigest: nullable.bytea(),
    /** The cursor through which they are counted: another one after a core that does not count has moved it. Null: not counted yet. */
    countedThrough: nullable.bigint(),
  },
  // No index holds a column that every commit changes, so that an update stays on its page (HOT). A host has few rows to sort by age.
  (columns) => [primaryKeyOf(columns.hostId, columns.queueId)],
);

/**
 * The queues of hosts that core knows of. Each binds the hours of its host, from its first account (without one, from its first sight) until it ends:
 * an hour is complete only if every queue that binds it is accounted for. Beyond 64 open queues of a host, the others are one row without an id.
 */
export const ingestQueue = table(
  "ingest_queue",
  {
    hostId: text(),
    queueId: bytea(),
    firstSeenAt: timestamp(),
    /** When it was last opened or accounted for; its cursor may have moved since. */
    lastSeenAt: timestamp(),
    /** What its client says. */
    sendsAccounts: boolean(),
    /** Until when it binds hours, and why no longer (`queueEndings`, proto/completeness/hour-state.ts); null: it is open. */
    endedAt: nullable.timestamp(),
    ending: nullable.text(),
    /** A copy of it has sent. An account of another queue that follows it does not end it then: it may be the copy's. */
    isForked: boolean().default(false),
    /** When it ended last, or was opened again after that. */
    changedAt: nullable.timestamp(),
  },
  (columns) => [
    primaryKeyOf(columns.hostId, columns.queueId),
    index("ingest_queue_open").on(columns.lastSeenAt).where(sql`${columns.endedAt} is null`),
    index("ingest_queue_changed")
      .on(columns.changedAt)
      .where(sql`${columns.changedAt} is not null`),
  ],
);

/** The time of the last committed envelope of a host, discarded ones included. */
export const ingestHost = table("ingest_host", {
  hostId: text().primaryKey(),
  lastEnvelopeAt: timestamp(),
});

/**
 * How many envelopes core stored for a host in an hour, by kind: counted in the transaction that stores them. After two days its rows become
 * `volume_day`. Kinds without a meaning of their own in docs/protocol.md are counted as `other`, so that a host cannot fill the table.
 */
export const ingestHour = table(
  "ingest_hour",
  {
    hostId: text(),
    kind: text(),
    hour: timestamp(),
    envelopes: counter(),
    payloadBytes: counter(),
  },
  // As with "ingest_cursor", no index holds a column that every commit changes.
  (columns) => [primaryKeyOf(columns.hostId, columns.hour, columns.kind)],
);

/** The acknowledged envelopes of a host that a restore from a backup lost. Only affected hosts have a row. */
export const ingestGap = table("ingest_gap", {
  hostId: text().primaryKey(),
  ranges: counter(),
  /** Sequences in these ranges; those that never had an envelope count too. At most 2^53 - 1, since hosts report them. */
  recordsMax: counter(),
  lastAt: timestamp(),
});

/**
 * How many envelopes were ever stored in PostgreSQL, counted in the transaction that stores them: the sum of all rows, one for each backend
 * of the server, so that no transaction waits for another one. Row 0 has those of backends that have ended.
 */
export const ingestStored = table("ingest_stored", {
  backend: integer().primaryKey(),
  envelopes: counter(),
});

/** One row: the sink that core used last, so that a queue which comes from another one is not taken for a restored database. */
export const ingestSink = singleRowTable("ingest_sink", {
  kind: text(),
  /** When core last began to use another sink than before; null if never. */
  changedAt: nullable.timestamp(),
});

/** The object stores that blocks are in: readers find each where it was, whatever core uses now. */
export const ingestStore = table("ingest_store", {
  id: integer().primaryKey().generatedAlwaysAsIdentity(),
  /** As `SVC_INGEST_STORE` names it. */
  location: text().unique(),
  /** When core last had compared all of its objects with their rows, by the database's clock. */
  checkedAt: nullable.timestamp(),
  /** The comparison continues below this id; null between two comparisons. */
  checkedFrom: nullable.counter(),
  /** When a core began the present part of it. */
  checkingAt: nullable.timestamp(),
  /** The store may have objects above this id that a restored database does not know; null once it was listed. */
  unlistedAbove: nullable.counter(),
});

/**
 * The objects that core has drawn names for. A row without an object is a name that is not used yet; an object without a row is one that an
 * earlier state of this database does not know.
 */
export const ingestObject = table(
  "ingest_object",
  {
    id: counter().generatedAlwaysAsIdentity(),
    /** Random: a restored database draws ids again. */
    nonce: bytea(),
    storeId: integer(),
    /** 0: drawn, 1: stored, with blocks that name it, 2: to be deleted. */
    state: integer(),
    /** By the database's clock. */
    changedAt: timestamp(),
    /** When its last block was received; until it is stored, when core found the object, or null. */
    receivedAt: nullable.timestamp(),
    bytes: nullable.counter(),
    /** The `xid` of its blocks; null until it is stored. */
    xid: nullable.bigint(),
  },
  (columns) => [
    primaryKeyOf(columns.id, columns.nonce),
    index("ingest_object_open")
      .on(columns.state, columns.changedAt)
      .where(sql`${columns.state} <> 1`),
    index("ingest_object_received").on(columns.receivedAt).where(sql`${columns.state} = 1`),
  ],
);

/** Objects that lack something of what core had stored in them. Only affected objects have a row. */
export const ingestObjectDamage = table(
  "ingest_object_damage",
  {
    objectId: counter(),
    nonce: bytea(),
    /** By the database's clock. */
    noticedAt: timestamp(),
    /** When core recorded what is lost with it (`ingest_lost_range`); null until then. */
    recordedAt: nullable.timestamp(),
    /** Those that are lost. */
    envelopes: counter().default(0),
  },
  (columns) => [
    primaryKeyOf(columns.objectId, columns.nonce),
    index("ingest_object_damage_noted")
      .on(columns.objectId)
      .where(sql`${columns.recordedAt} is null`),
  ],
);

// The telemetry is partitioned, which drizzle-kit cannot express: drizzle/sql/ingest-block.sql, and ingest-envelope.sql for what versions
// before blocks have stored.
