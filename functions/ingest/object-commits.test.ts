import { afterEach, beforeEach, expect, it } from "vitest";
import { ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createMemoryStore, type MemoryStore } from "#tests/fakes/object-store.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { findStored, testRun } from "#tests/support/stored-envelopes.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { openCommitClient } from "../store/ingest/commit-batch.ts";
import { createObjectReader } from "../store/ingest/object-data.ts";
import { readFooter } from "../store/ingest/object-footer.ts";
import { noteStore } from "../store/ingest/objects.ts";
import { BlockCorrupt } from "../store/ingest/stored-envelope.ts";
import { type Committer, type CommitterOptions, createCommitter } from "./committer.ts";
import { createObjectWriter } from "./object-writer.ts";

let database: TestDatabase;
let connection: ConnectedDatabase;
let store: MemoryStore;
const committers: Committer[] = [];
beforeEach(async () => {
  database = await useTestDatabase();
  connection = database.connect();
  store = createMemoryStore();
});
afterEach(async () => {
  for (const committer of committers.splice(0)) await committer.close();
});

/** Starts the committer of a core; its options may be of a core without an object store. */
const start = async (options: Partial<CommitterOptions> = {}) => {
  const { db } = connection;
  const committer = createCommitter({
    connect: () => openCommitClient(database.url),
    clock: systemClock,
    codec: zstdCodec,
    objects: createObjectWriter({
      db,
      store,
      storeId: await noteStore(db, "memory:/"),
      lineage: "test",
      clock: systemClock,
      entropy: systemEntropy,
    }),
    observe: { batch: () => undefined },
    ...options,
  });
  committers.push(committer);
  return committer;
};

const queueId = new Uint8Array(16).fill(1);
const frame = (hostId: string, sequence: number, payload = "p") => ({
  hostId,
  queueId,
  previousSequence: BigInt(sequence - 1),
  lastSequence: BigInt(sequence),
  receivedAt: systemClock.now(),
  run: testRun([{ sequence: BigInt(sequence), kind: "log_line", payload: Buffer.from(payload) }]),
});

const objectReader = () =>
  createObjectReader({ db: connection.db, codec: zstdCodec, open: async () => store });
const stored = async () =>
  (await findStored(connection.sql, objectReader())).map(
    ({ hostId, sequence, text }) => `${hostId} ${sequence} ${text.slice(0, 4)}`,
  );
const states = () =>
  connection.sql.unsafe("select id::int, state from ingest_object where state <> 0 order by id");

it("commits the frames of several hosts with their data in one object that describes them", async () => {
  const committer = await start();
  const outcomes = await Promise.all([
    committer.commit(frame("a", 1, "one"), 1),
    committer.commit(frame("b", 1, "two".repeat(5_000)), 1),
    committer.commit(frame("a", 2, "three"), 1),
  ]);
  expect(outcomes.map(({ outcome, cursor }) => [outcome, cursor])).toEqual([
    ["committed", 1n],
    ["committed", 1n],
    ["committed", 2n],
  ]);
  expect(await stored()).toEqual(["a 1 one", "a 2 thre", "b 1 twot"]);
  expect(await states()).toEqual([{ id: 1, state: 1 }]);
  const [name = "", ...others] = store.objects.keys();
  expect(others).toEqual([]);
  expect(store.reads).toHaveLength(1);
  const footer = await readFooter(store, name);
  expect(footer).toMatchObject({ lineage: "test", objectId: 1n });
  expect(
    footer.queues.map(({ hostId, previousCursor, cursor, settled, blocks }) => ({
      hostId,
      range: [previousCursor, cursor],
      settled,
      blocks: blocks.map(({ firstSequence, lastSequence, kinds }) => [
        firstSequence,
        lastSequence,
        kinds.map(({ kind, envelopes }) => `${kind} ${envelopes}`),
      ]),
    })),
  ).toEqual([
    { hostId: "a", range: [0n, 2n], settled: true, blocks: [[1n, 2n, ["log_line 2"]]] },
    { hostId: "b", range: [0n, 1n], settled: true, blocks: [[1n, 1n, ["log_line 1"]]] },
  ]);
});

it("K9: reads what was stored in objects and in rows, whichever core stored it", async () => {
  const objects = await start();
  await objects.commit(frame("a", 1), 1);
  const rows = await start({ objects: undefined });
  await rows.commit(frame("a", 2), 1);
  await objects.commit(frame("a", 3), 1);
  expect(await stored()).toEqual(["a 1 p", "a 2 p", "a 3 p"]);
  const encodings = await connection.sql`
    select encoding from ingest_block order by first_sequence`;
  expect(encodings.map(({ encoding }) => encoding)).toEqual([3, 1, 3]);
});

it("commits no block of an object whose name became invalid while core was frozen, and stores the batch again", async () => {
  const committer = await start();
  const put = Promise.withResolvers<void>();
  const frozen = Promise.withResolvers<void>();
  store.beforePut = async () => {
    frozen.resolve();
    await put.promise;
  };
  const committed = committer.commit(frame("a", 1), 1);
  await frozen.promise;
  await connection.sql`update ingest_object set state = 2 where id = 1`;
  put.resolve();
  expect(await committed).toMatchObject({ outcome: "committed", cursor: 1n });
  expect(await stored()).toEqual(["a 1 p"]);
  expect(await states()).toEqual([
    { id: 1, state: 2 },
    { id: 2, state: 1 },
  ]);
});

it("rejects frames while the store is unavailable, and stores what is sent again", async () => {
  const committer = await start();
  store.beforePut = () => {
    throw new ObjectStoreUnavailable("it is away");
  };
  await expect(committer.commit(frame("a", 1), 1)).rejects.toMatchObject({
    code: "database_unavailable",
  });
  expect(committer.health().healthy).toBe(false);
  store.beforePut = async () => undefined;
  await committer.commit(frame("a", 1), 1);
  expect(await stored()).toEqual(["a 1 p"]);
});

it.each([
  ["is missing", () => undefined],
  ["was truncated", (text: string) => text.slice(0, 10)],
  ["was changed", (text: string) => text.replace("early", "other")],
])("reads no block of an object that %s, and all of the others", async (_, damage) => {
  const committer = await start();
  await committer.commit(frame("a", 1, "early"), 1);
  await committer.commit(frame("b", 1, "later"), 1);
  const [name = ""] = store.objects.keys();
  const damaged = damage(store.objects.get(name)?.toString("latin1") ?? "");
  if (damaged === undefined) store.objects.delete(name);
  else store.objects.set(name, Buffer.from(damaged, "latin1"));
  await expect(stored()).rejects.toThrow(BlockCorrupt);
  await connection.sql`delete from ingest_block where host_id = 'a'`;
  expect(await stored()).toEqual(["b 1 late"]);
});
