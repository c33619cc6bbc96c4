/* Cores that store telemetry in objects in memory, and a database that is restored under them. */
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach } from "vitest";
import { createObjectAdopter, type ObjectAdopter } from "#functions/ingest/adopt-objects.ts";
import type { QueueClaim } from "#functions/ingest/adopted-frames.ts";
import { createObjectWriter } from "#functions/ingest/object-writer.ts";
import { createPostgresSink } from "#functions/ingest/postgres-sink.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { ConnectedDatabase } from "#functions/store/database/database.ts";
import { openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { createObjectReader } from "#functions/store/ingest/object-data.ts";
import { noteStore } from "#functions/store/ingest/objects.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestLog } from "#tests/fakes/log.ts";
import {
  createMemoryStore,
  type MemoryStore,
  unobservedLosses,
} from "#tests/fakes/object-store.ts";
import { type TestDatabase, useTestDatabase } from "./database.ts";
import { findStored, testRun } from "./stored-envelopes.ts";

/** The queue of every host. */
export const queueId = new Uint8Array(16).fill(1);
/** Returns a session id. */
export const session = (byte: number) => new Uint8Array(16).fill(byte);

/** A claim of a host whose queue has had the sessions 1 and 2. */
export const claimOf = (
  hostId: string,
  acked: number,
  more: Partial<QueueClaim> = {},
): QueueClaim => ({
  hostId,
  queueId,
  sessionIds: [session(1), session(2)],
  ackedThrough: BigInt(acked),
  sentThrough: BigInt(acked),
  ackedBefore: 0n,
  isLeft: false,
  ...more,
});

/** A frame with the sequences after `previous` up to `last`, of which every tenth is rejected. */
export const frame = (hostId: string, previous: number, last: number) => {
  const sequences = Array.from({ length: last - previous }, (_, at) => BigInt(previous + 1 + at));
  const isRejected = (sequence: bigint) => sequence % 10n === 0n;
  return {
    hostId,
    queueId,
    previousSequence: BigInt(previous),
    lastSequence: BigInt(last),
    receivedAt: systemClock.now(),
    unstored: { rejected: sequences.filter(isRejected), discarded: [] },
    run: testRun(
      sequences
        .filter((sequence) => !isRejected(sequence))
        .map((sequence) => ({ sequence, kind: "log_line", payload: Buffer.from("p".repeat(99)) })),
    ),
  };
};
/** Returns what is stored of a host whose frames are stored through a sequence. */
export const through = (hostId: string, last: number) =>
  Array.from({ length: last }, (_, at) => at + 1)
    .filter((sequence) => sequence % 10 !== 0)
    .map((sequence) => `${hostId} ${sequence}`);

const tables = ["cursor", "object", "block", "hour", "host", "queue", "gap"].map(
  (name) => `ingest_${name}`,
);

/** Prepares a database and two stores for each test. */
export const useObjectCores = () => {
  let database: TestDatabase;
  let connection: ConnectedDatabase;
  let store: MemoryStore;
  /** At any other location. */
  let otherStore: MemoryStore;
  let log: ReturnType<typeof createTestLog>;
  const sinks: Sink[] = [];
  let dumps = 0;
  beforeEach(async () => {
    database = await useTestDatabase();
    connection = database.connect();
    store = createMemoryStore();
    otherStore = createMemoryStore();
    log = createTestLog();
  });
  afterEach(async () => {
    for (const sink of sinks.splice(0)) await sink.close();
  });

  const storeAt = (location: string) => (location === "memory:/" ? store : otherStore);
  const objectReader = () =>
    createObjectReader({
      db: connection.db,
      codec: zstdCodec,
      open: async (location) => storeAt(location),
    });

  /** Starts a core that stores in objects. */
  const startCore = async ({
    lineage = "test",
    location = "memory:/",
    adopterUrl = database.url,
    leaseMs = undefined as number | undefined,
    afterRecovery = async (): Promise<unknown> => undefined,
  } = {}): Promise<
    Sink & { adopter: ObjectAdopter; writer: ReturnType<typeof createObjectWriter> }
  > => {
    const { db } = connection;
    const connect = () => openCommitClient(adopterUrl);
    const shared = {
      db,
      log,
      clock: systemClock,
      entropy: systemEntropy,
      codec: zstdCodec,
      observe: { ...unobservedLosses, batch: () => undefined, objectWrite: () => undefined },
    };
    const storeId = await noteStore(db, location);
    const ofStore = { ...shared, store: storeAt(location), storeId, lineage };
    const adopter = createObjectAdopter({
      ...shared,
      storeId,
      lineage,
      objects: objectReader(),
      connect,
      leaseMs,
    });
    const writer = createObjectWriter({ ...ofStore, beforeDraw: adopter.checkRestored });
    const sink = createPostgresSink({
      ...shared,
      databaseUrl: async () => database.url,
      objects: writer,
      recover: async (claims) => {
        const hasFound = await adopter.recover(claims);
        await afterRecovery();
        return hasFound;
      },
    });
    sinks.push(sink);
    return { ...sink, adopter, writer };
  };

  const send = (core: Sink, hostId: string, previous: number, last: number, id?: number) =>
    core.commit(
      { ...frame(hostId, previous, last), sessionId: id === undefined ? undefined : session(id) },
      1,
    );
  const open = (core: Sink, hostId: string, ackedThrough: number, id = 2) =>
    core.open(
      create(OpenSchema, {
        hostId,
        queueId,
        sessionId: session(id),
        previousSessionIds: [session(1), session(2)],
        ackedThrough: BigInt(ackedThrough),
        sentThrough: 1_000_000n,
      }),
    );

  /** What is stored of hosts, as ranges: each sequence once, in order. */
  const stored = async () =>
    (await findStored(connection.sql, objectReader())).map(
      ({ hostId, sequence }) => `${hostId} ${sequence}`,
    );
  const gaps = () =>
    connection.sql`
      select details->>'host_id' as host, details->>'from' as from, details->>'through' as through
      from audit_event where action = 'ingest.gap'`;
  const counts = () =>
    connection.sql`
      select host_id, cursor, range_stored, range_rejected, range_lost from ingest_cursor order by host_id`;
  const states = async () =>
    (
      await connection.sql`select state, count(*)::int from ingest_object group by 1 order by 1`
    ).map(({ state, count }) => `${state}: ${count}`);

  const passHour = () =>
    connection.sql`update ingest_object set changed_at = changed_at - interval '61 minutes'`;
  /** Lets the database know all objects for a day, or the first ones. */
  const passDay = ({ objects = 1_000_000 } = {}) =>
    connection.sql`
      update ingest_object set changed_at = changed_at - interval '25 hours', received_at = received_at - interval '25 hours'
      where id <= ${objects}`;

  /** Dumps what ingest stores; returns the function that restores it. */
  const dump = async ({ isNoticed = true } = {}) => {
    const { sql } = connection;
    const schema = `dump_${++dumps}`;
    await sql.unsafe(`create schema ${schema}`);
    for (const table of tables)
      await sql.unsafe(`create table ${schema}.${table} as table ${table}`);
    const [ids] = await sql`select last_value::text as last, is_called from ingest_object_id_seq`;
    return () =>
      sql.begin(async (tx) => {
        await tx.unsafe(`truncate ${tables.join()}`);
        for (const table of tables)
          await tx.unsafe(`insert into ${table} overriding system value table ${schema}.${table}`);
        await tx`select setval('ingest_object_id_seq', ${ids?.last}::bigint, ${ids?.is_called})`;
        // As core does when it notices it (domain/directory/restored.ts).
        if (isNoticed)
          await tx`insert into database_lineage (epoch, written_xid, database_oid, restored_at) values (1, 1, '1', clock_timestamp())`;
      });
  };

  return {
    startCore,
    databaseUrl: () => database.url,
    send,
    open,
    stored,
    gaps,
    counts,
    states,
    passHour,
    passDay,
    dump,
    objectReader,
    get db() {
      return connection.db;
    },
    get sql() {
      return connection.sql;
    },
    get store() {
      return store;
    },
    get otherStore() {
      return otherStore;
    },
    get log() {
      return log;
    },
  };
};
