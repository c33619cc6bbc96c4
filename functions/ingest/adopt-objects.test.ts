import { create } from "@bufbuild/protobuf";
import type { Client } from "pg";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestLog } from "#tests/fakes/log.ts";
import {
  createMemoryStore,
  type MemoryStore,
  unobservedLosses,
} from "#tests/fakes/object-store.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { compressRun, findStored, testRun } from "#tests/support/stored-envelopes.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { ConnectedDatabase, Executor } from "../store/database/database.ts";
import { isLockTimeout } from "../store/database/problem.ts";
import { commitBatch, type ObjectWriter, openCommitClient } from "../store/ingest/commit-batch.ts";
import type { FrameToCommit } from "../store/ingest/decide-batch.ts";
import { createObjectReader } from "../store/ingest/object-data.ts";
import { drawObjects, noteStore } from "../store/ingest/objects.ts";
import { createObjectAdopter, type ObjectAdopter } from "./adopt-objects.ts";
import { createObjectWriter } from "./object-writer.ts";
import { createPostgresSink } from "./postgres-sink.ts";

let database: TestDatabase;
let connection: ConnectedDatabase;
let store: MemoryStore;
let client: Client;
let writer: ObjectWriter;
let adopter: ObjectAdopter;
let log: ReturnType<typeof createTestLog>;
beforeEach(async () => {
  database = await useTestDatabase();
  connection = database.connect();
  store = createMemoryStore();
  client = await openCommitClient(database.url);
  log = createTestLog();
  const { db } = connection;
  const storeId = await noteStore(db, "memory:/");
  const shared = { db, store, storeId, lineage: "test" };
  writer = createObjectWriter({
    ...shared,
    clock: systemClock,
    entropy: systemEntropy,
    observe: { objectWrite: () => undefined },
  });
  const connect = () => openCommitClient(database.url);
  adopter = createObjectAdopter({
    db,
    storeId,
    lineage: "test",
    objects: { storeOf: async () => store },
    connect,
    codec: zstdCodec,
    log,
    clock: systemClock,
    entropy: systemEntropy,
    observe: unobservedLosses,
  });
});
afterEach(() => client.end());

const queueId = new Uint8Array(16).fill(1);
const session = (byte: number) => new Uint8Array(16).fill(byte);

/** A frame of the sequences `from` to `to` of a host's queue, each with its number as text. */
const frame = (from: number, to: number, more: Partial<FrameToCommit> = {}): FrameToCommit => ({
  hostId: "h",
  queueId,
  previousSequence: BigInt(from - 1),
  lastSequence: BigInt(to),
  receivedAt: systemClock.now(),
  run: testRun(
    Array.from({ length: to - from + 1 }, (_, at) => ({
      sequence: BigInt(from + at),
      kind: "log_line",
      payload: Buffer.from(`${from + at}`),
    })),
  ),
  ...more,
});
/** Commits each list of frames as an object. */
const commit = async (...batches: FrameToCommit[][]) => {
  for (const frames of batches)
    await commitBatch(client, frames, {
      codec: zstdCodec,
      now: systemClock.now,
      objects: writer,
    });
};
const stored = async () => {
  const { db, sql } = connection;
  const objects = createObjectReader({ db, codec: zstdCodec, open: async () => store });
  const found = await findStored(sql, objects);
  return found.map(({ hostId, text }) => `${hostId} ${text}`);
};
const cursors = async () =>
  (
    await connection.sql`select host_id, cursor::int, range_stored::int as stored, range_rejected::int as rejected
      from ingest_cursor order by 1`
  ).map(({ host_id, ...row }) => ({ host: host_id, ...row }));
/** Sets the database back to before its first commit. */
const restoreEmpty = () =>
  connection.sql.unsafe(
    "truncate ingest_cursor; truncate ingest_block; truncate ingest_object restart identity; truncate ingest_hour",
  );
const states = async () =>
  (
    await connection.sql`select id::int, state from ingest_object where state <> 0 or id <= ${store.objects.size} order by id`
  ).map(({ id, state }) => `${id} ${state}`);

it("a database that was restored to before its objects has all of their telemetry again, with cursors and counts", async () => {
  const rejected = { unstored: { rejected: [3n], discarded: [] }, lastSequence: 3n };
  const plain = frame(5, 5);
  // Another block of its object than the frame before.
  const compressed = compressRun(plain.run);
  await commit(
    [frame(1, 2, rejected), frame(1, 1, { hostId: "i" })],
    [frame(4, 4), frame(5, 5, { run: compressed })],
    [frame(6, 6)],
  );
  const lines = await stored();
  const before = await cursors();
  const digest = () => connection.sql`select range_digest from ingest_cursor order by host_id`;
  const digests = await digest();
  await restoreEmpty();
  await adopter.checkRestored();
  await adopter.recover();
  expect(await stored()).toEqual(lines);
  expect(await cursors()).toEqual(before);
  expect(await digest()).toEqual(digests);
  expect(await states()).toEqual(["1 1", "2 1", "3 1"]);
  const hours = await connection.sql`
    select host_id, sum(envelopes)::int as envelopes from ingest_hour group by 1 order by 1`;
  expect(hours).toEqual([
    { host_id: "h", envelopes: 5 },
    { host_id: "i", envelopes: 1 },
  ]);
  await adopter.checkRestored();
  // Further names do not repeat those of the objects.
  await commit([frame(7, 7)]);
  expect((await stored()).at(-2)).toBe("h 7");
  // One under a name that the restored database does not know.
  expect(store.objects.size).toBe(5);
});

it("adopts objects below the ids that a restored sequence has reached, as ids commit in their order", async () => {
  await commit([frame(1, 2)]);
  const lines = await stored();
  await restoreEmpty();
  // PostgreSQL logs a sequence ahead, and apart from the transactions that draw from it.
  await connection.sql`select setval('ingest_object_id_seq', 96)`;
  await adopter.checkRestored();
  await adopter.recover();
  expect(await stored()).toEqual(lines);

  const { db } = connection;
  const draw = (tx: Executor) => drawObjects(tx, { storeId: 1, nonce: "00", count: 1 });
  await db.transaction(async (first) => {
    await draw(first);
    const second = db.transaction(async (tx) => {
      await tx.execute("set local lock_timeout = 50");
      await draw(tx);
    });
    expect(isLockTimeout(await second.catch((cause) => cause))).toBe(true);
  });
});

it("adopts what was committed under names that a backup has as drawn", async () => {
  await commit([frame(1, 1)], [frame(2, 2)], [frame(3, 3)]);
  await connection.sql`delete from ingest_block where first_sequence > 1`;
  await connection.sql`update ingest_cursor set cursor = 1, counted_through = 1`;
  await connection.sql`update ingest_object set state = 0, received_at = null where id > 1`;
  await adopter.checkRestored();
  expect(await stored()).toEqual(["h 1"]);
  await adopter.recover();
  expect(await stored()).toEqual(["h 1", "h 2", "h 3"]);
  expect(await states()).toEqual(["1 1", "2 1", "3 1"]);
});

it("Q12: records no loss of what a host knows to be acknowledged and an object has", async () => {
  await commit([frame(1, 2)], [frame(3, 3)]);
  await restoreEmpty();
  const gaps: bigint[] = [];
  const sink = createPostgresSink({
    db: connection.db,
    databaseUrl: async () => database.url,
    clock: systemClock,
    entropy: systemEntropy,
    log,
    codec: zstdCodec,
    observe: {
      batch: () => undefined,
      gap: (sequences) => void gaps.push(sequences),
      implausibleGap: () => undefined,
    },
    recover: adopter.recover,
  });
  const claims = { hostId: "h", queueId, sessionId: session(1), ackedThrough: 4n };
  const opened = await sink.open(create(OpenSchema, claims));
  await sink.close();
  expect(opened.cursor).toBe(4n);
  expect(await stored()).toEqual(["h 1", "h 2", "h 3"]);
  // Nothing has the fourth one.
  expect(gaps).toEqual([1n]);
});

it("cuts a block that the cursor covers in part, and records what no object has as lost", async () => {
  await commit([frame(1, 4)], [frame(5, 5)], [frame(6, 7)]);
  const [, second = ""] = store.objects.keys();
  store.objects.delete(second);
  await restoreEmpty();
  await commitBatch(client, [frame(1, 2)], { codec: zstdCodec, now: systemClock.now });
  await adopter.recover();
  expect(await stored()).toEqual(["h 1", "h 2", "h 3", "h 4", "h 6", "h 7"]);
  expect(await connection.sql`select ranges::int, records_max::int from ingest_gap`).toEqual([
    { ranges: 1, records_max: 1 },
  ]);
});

it("deletes an object that was never committed once the cursors cover it, and adopts none of another session", async () => {
  await connection.sql`insert into database_lineage (epoch, written_xid, database_oid, restored_at)
    values (1, 1, '1', now() - interval '1 day')`;
  const orphan = async (frames: FrameToCommit[]) => {
    const failing: ObjectWriter = {
      ...writer,
      write: async (...batch) => {
        await writer.write(...batch);
        throw new Error("the core was killed");
      },
    };
    const needs = { codec: zstdCodec, now: systemClock.now, objects: failing };
    await expect(commitBatch(client, frames, needs)).rejects.toThrow("killed");
  };
  await orphan([frame(1, 1)]);
  await commit([frame(1, 1)]);
  await connection.sql`update ingest_cursor set session_id = ${session(2)}`;
  await orphan([frame(2, 2, { sessionId: session(2) })]);
  await connection.sql`update ingest_cursor set session_id = ${session(3)}`;
  await adopter.recover();
  expect(await stored()).toEqual(["h 1"]);
  await connection.sql`update ingest_object set changed_at = changed_at - interval '2 hours'`;
  await adopter.recover();
  expect(await stored()).toEqual(["h 1"]);
  expect(await states()).toEqual([
    "1 2",
    "2 1",
    "3 0",
    ...Array.from({ length: 61 }, (_, at) => `${at + 4} 2`),
  ]);
  await connection.sql`update ingest_cursor set session_id = ${session(2)}`;
  await adopter.recover();
  expect(await stored()).toEqual(["h 1", "h 2"]);
});
