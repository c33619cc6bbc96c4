/* A database that is restored to an earlier state under a running store, and a store that lacks what the database knew. */
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestLog } from "#tests/fakes/log.ts";
import { createMemoryStore, type MemoryStore } from "#tests/fakes/object-store.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { findStored, testRun } from "#tests/support/stored-envelopes.ts";
import { sweepObjects } from "../jobs/sweep-objects.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { openCommitClient } from "../store/ingest/commit-batch.ts";
import { createObjectReader } from "../store/ingest/object-data.ts";
import { noteStore } from "../store/ingest/objects.ts";
import { createObjectAdopter, type ObjectAdopter } from "./adopt-objects.ts";
import { createObjectWriter } from "./object-writer.ts";
import { createPostgresSink } from "./postgres-sink.ts";
import type { Sink } from "./sink.ts";

let database: TestDatabase;
let connection: ConnectedDatabase;
let store: MemoryStore;
let log: ReturnType<typeof createTestLog>;
const sinks: Sink[] = [];
beforeEach(async () => {
  database = await useTestDatabase();
  connection = database.connect();
  store = createMemoryStore();
  log = createTestLog();
});
afterEach(async () => {
  for (const sink of sinks.splice(0)) await sink.close();
});

const objectReader = () =>
  createObjectReader({ db: connection.db, codec: zstdCodec, open: async () => store });

/** Starts a core that stores in objects. */
const startCore = async (
  lineage = "test",
): Promise<Sink & { adopter: ObjectAdopter; writer: ReturnType<typeof createObjectWriter> }> => {
  const { db } = connection;
  const connect = () => openCommitClient(database.url);
  const shared = {
    db,
    log,
    clock: systemClock,
    entropy: systemEntropy,
    codec: zstdCodec,
    observe: {
      batch: () => undefined,
      gap: () => undefined,
      implausibleGap: () => undefined,
      objectWrite: () => undefined,
    },
  };
  const storeId = await noteStore(db, "memory:/");
  const ofStore = { ...shared, store, storeId, lineage };
  const adopter = createObjectAdopter({ ...ofStore, connect });
  const writer = createObjectWriter({ ...ofStore, beforeDraw: adopter.checkRestored });
  const sink = createPostgresSink({
    ...shared,
    databaseUrl: async () => database.url,
    objects: writer,
    recover: adopter.recover,
  });
  sinks.push(sink);
  return { ...sink, adopter, writer };
};

const queueId = new Uint8Array(16).fill(1);
const session = (byte: number) => new Uint8Array(16).fill(byte);

/** A frame with the sequences after `previous` up to `last`, of which every tenth is rejected. */
const frame = (hostId: string, previous: number, last: number) => {
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
const send = (core: Sink, hostId: string, previous: number, last: number) =>
  core.commit(frame(hostId, previous, last), 1);
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
const through = (hostId: string, last: number) =>
  Array.from({ length: last }, (_, at) => at + 1)
    .filter((sequence) => sequence % 10 !== 0)
    .map((sequence) => `${hostId} ${sequence}`);
const gaps = () =>
  connection.sql`
    select details->>'host_id' as host, details->>'from' as from, details->>'through' as through
    from audit_event where action = 'ingest.gap'`;
const counts = () =>
  connection.sql`
    select host_id, cursor, range_stored, range_rejected, range_lost from ingest_cursor order by host_id`;
const states = async () =>
  (await connection.sql`select state, count(*)::int from ingest_object group by 1 order by 1`).map(
    ({ state, count }) => `${state}: ${count}`,
  );

const tables = ["cursor", "object", "block", "hour", "host", "queue", "gap"].map(
  (name) => `ingest_${name}`,
);
const passHour = () =>
  connection.sql`update ingest_object set changed_at = changed_at - interval '61 minutes'`;

/** Dumps what ingest stores; returns the function that restores it. */
const dump = async () => {
  const { sql } = connection;
  await sql.unsafe("create schema dump");
  for (const table of tables) await sql.unsafe(`create table dump.${table} as table ${table}`);
  const [ids] = await sql`select last_value::text as last, is_called from ingest_object_id_seq`;
  return () =>
    sql.begin(async (tx) => {
      await tx.unsafe(`truncate ${tables.join()}`);
      for (const table of tables)
        await tx.unsafe(`insert into ${table} overriding system value table dump.${table}`);
      await tx`select setval('ingest_object_id_seq', ${ids?.last}::bigint, ${ids?.is_called})`;
      // As core does when it notices it (domain/directory/restored.ts).
      await tx`insert into database_lineage (epoch, written_xid, database_oid, restored_at) values (1, 1, '1', clock_timestamp())`;
    });
};

it("Q12: a database that is restored under a running store loses nothing, and stores nothing twice", async () => {
  const one = await startCore();
  const two = await startCore();
  await open(one, "a", 0, 1);
  await send(one, "a", 0, 15);
  await send(one, "b", 0, 4);
  const restore = await dump();
  // Hosts move between cores, whose names follow each other in another order, and one is new.
  await send(two, "a", 15, 25);
  await send(one, "a", 25, 35);
  await send(two, "a", 35, 40);
  await send(two, "b", 4, 9);
  await Promise.all([send(one, "new", 0, 12), send(two, "b", 9, 14)]);
  const before = await stored();
  const countsBefore = await counts();
  await restore();
  expect(await stored()).toEqual([...through("a", 15), ...through("b", 4)]);

  const opened = await Promise.all([open(one, "a", 40), open(two, "b", 14), open(two, "new", 12)]);
  expect(opened.map(({ cursor }) => cursor)).toEqual([40n, 14n, 12n]);
  expect(await stored()).toEqual(before);
  expect(await counts()).toEqual(countsBefore);
  expect(await gaps()).toEqual([]);
  await send(one, "a", 38, 45);
  expect(await stored()).toEqual([...through("a", 45), ...through("b", 14), ...through("new", 12)]);
  await two.adopter.recover();
  expect(await states()).toEqual([expect.stringContaining("0: "), `1: ${store.objects.size}`]);
});

it("lists the store for an Open that lost something, and for no other", async () => {
  const core = await startCore();
  const openLeft = (storedThrough: bigint) =>
    core.open(
      create(OpenSchema, {
        hostId: "a",
        queueId: new Uint8Array(16).fill(3),
        sessionId: session(1),
        leftQueues: [{ queueId, storedThrough, ackedThrough: storedThrough }],
      }),
    );
  await send(core, "a", 0, 5);
  const { lists } = store;
  await openLeft(5n);
  expect(store.lists).toBe(lists);
  await openLeft(6n);
  expect(store.lists).toBe(lists + 1);
  expect(await gaps()).toEqual([{ host: "a", from: "6", through: "6" }]);
});

it("Q12: adopts what a restored database lacks before names are drawn, whoever connects", async () => {
  const core = await startCore();
  const restore = await dump();
  await send(core, "a", 0, 2);
  await send(core, "a", 2, 3);
  await restore();
  // Its names are of the time that is lost.
  await send(core, "b", 0, 1);
  await send(await startCore(), "c", 0, 1);
  expect(await stored()).toEqual([...through("a", 3), "b 1", "c 1"]);
  const ids = await connection.sql`select id from ingest_object group by id having count(*) > 1`;
  expect(ids).toEqual([]);
});

it("K11: stores each envelope once where an object without a commit overlaps what was sent again", async () => {
  const core = await startCore();
  await send(core, "a", 0, 1);
  const restore = await dump();
  const failing = core.commit(frame("a", 1, 5), 1);
  store.beforePut = async () => {
    store.beforePut = async () => undefined;
    await connection.sql`update ingest_object set state = 2 where state = 0`;
  };
  await failing;
  // The first object has no commit: the frame is in the next one too.
  await send(core, "a", 5, 9);
  await restore();
  await connection.sql`update ingest_cursor set cursor = 3`;
  await connection.sql`delete from ingest_block`;
  await core.adopter.recover();
  expect(await stored()).toEqual(through("a", 9).slice(3));
  expect(await gaps()).toEqual([]);
});

it("K11: names the range of an object that is missing, and adopts what follows it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  await send(core, "a", 2, 4);
  const missing = [...store.objects.keys()].at(-1) ?? "";
  await send(core, "a", 4, 6);
  store.objects.delete(missing);
  await restore();
  expect(await open(core, "a", 6)).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual(["a 1", "a 2", "a 5", "a 6"]);
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
});

it("K11: reports an object that was truncated, or that another database wrote, and adopts none of it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  await send(core, "a", 2, 4);
  const [name = ""] = [...store.objects.keys()].slice(-1);
  store.objects.set(name, (store.objects.get(name) ?? Buffer.alloc(0)).subarray(0, -9));
  await send(await startCore("another"), "b", 0, 2);
  await restore();
  expect(await open(core, "a", 4)).toMatchObject({ cursor: 4n });
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
  expect(await stored()).toEqual(["a 1", "a 2"]);
  expect(log.lines.map(({ message }) => message)).toEqual(
    expect.arrayContaining([
      "an object is damaged: it is not adopted",
      "an object is of another database; core leaves it alone",
    ]),
  );
  expect(store.objects.size).toBe(3);
});

it("K11: leaves a range whose predecessor may be with its host still, and names it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  // Both are written at once, so the second does not say that the first was committed.
  await Promise.all([send(core, "a", 2, 4), send(core, "b", 0, 1)]);
  const batch = {
    queues: [
      {
        hostId: "a",
        queueHex: queueId.toHex(),
        initial: 6n,
        cursor: 8n,
        session: "",
        isNew: false,
        counts: { stored: 0, rejected: 0, discarded: 2 },
      },
    ],
    blocks: [],
    isSettled: false,
    now: systemClock.now(),
  };
  await core.writer.write(batch);
  await restore();
  await core.adopter.recover();
  expect(await stored()).toEqual([...through("a", 4), "b 1"]);
  expect(await gaps()).toEqual([]);
  expect(log.lines.map(({ fields }) => fields)).toContainEqual(
    expect.objectContaining({ host_id: "a", from: "7", through: "8", cursor: "4" }),
  );
  await send(core, "a", 4, 8);
  expect(await stored()).toEqual([...through("a", 8), "b 1"]);
});

it("K11: adopts an hour-old object without a commit, and deletes it once the cursors cover it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const parts = [];
  for (const cursor of [3n, 2n])
    parts.push(
      await core.writer.write({
        queues: [
          {
            hostId: "a",
            queueHex: queueId.toHex(),
            initial: cursor - 1n,
            cursor,
            session: "",
            isNew: false,
            counts: { stored: 0, rejected: 1, discarded: 0 },
          },
        ],
        blocks: [],
        isSettled: true,
        now: systemClock.now(),
      }),
    );
  const sweep = () =>
    sweepObjects({ db: connection.db, objects: objectReader(), settleOld: core.adopter.settleOld });
  await passHour();
  await sweep();
  expect(await counts()).toMatchObject([{ cursor: "3", range_rejected: "1" }]);
  await passHour();
  await sweep();
  expect(store.objects.size).toBe(2);
  expect(parts).toHaveLength(2);
});

it("K11: stores each envelope once where two cores adopt while hosts go on", async () => {
  const one = await startCore();
  const two = await startCore();
  await send(one, "a", 0, 1);
  const restore = await dump();
  for (let last = 1; last < 6; last++) await send(last % 2 ? one : two, "a", last, last + 1);
  await restore();
  await Promise.all([
    one.adopter.recover(),
    two.adopter.recover(),
    send(two, "b", 0, 3),
    send(one, "a", 1, 4),
  ]);
  expect(await stored()).toEqual([...through("a", 6), ...through("b", 3)]);
});
