import { afterEach, beforeEach, expect, it } from "vitest";
import { ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createMemoryStore, type MemoryStore } from "#tests/fakes/object-store.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { compressRun, findStored, testRun } from "#tests/support/stored-envelopes.ts";
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
      observe: { objectWrite: () => undefined },
      clock: systemClock,
      entropy: systemEntropy,
    }),
    observe: { batch: () => undefined },
    ...options,
  });
  committers.push(committer);
  return committer;
};

/** The bytes from which on an object waits for no others. */
const objectBytes = 8 * 1024 * 1024;
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
  // The first has an object of its own.
  const [, ...outcomes] = await Promise.all([
    committer.commit(frame("c", 1, "zero"), 1),
    committer.commit(frame("a", 1, "one"), 1),
    committer.commit(frame("b", 1, "two".repeat(5_000)), 1),
    committer.commit(frame("a", 2, "three"), 1),
  ]);
  expect(outcomes.map(({ outcome, cursor }) => [outcome, cursor])).toEqual([
    ["committed", 1n],
    ["committed", 1n],
    ["committed", 2n],
  ]);
  expect(await stored()).toEqual(["a 1 one", "a 2 thre", "b 1 twot", "c 1 zero"]);
  expect(await states()).toEqual([
    { id: 1, state: 1 },
    { id: 2, state: 1 },
  ]);
  const [, name = "", ...others] = store.objects.keys();
  expect(others).toEqual([]);
  expect(store.reads).toHaveLength(2);
  const footer = await readFooter(store, name);
  expect(footer).toMatchObject({ lineage: "test", objectId: 2n });
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
    { id: 65, state: 1 },
  ]);
});

it("joins the compressed frames of a queue in one block of an object", async () => {
  const committer = await start();
  const compressed = (sequence: number, payload: string) => {
    const plain = frame("a", sequence, payload);
    return { ...plain, run: compressRun(plain.run) };
  };
  // The first has an object of its own.
  await Promise.all([
    committer.commit(frame("a", 1, "zero"), 1),
    committer.commit(compressed(2, "one"), 1),
    committer.commit(compressed(3, "two"), 1),
    committer.commit(frame("a", 4, "three"), 1),
  ]);
  expect(await stored()).toEqual(["a 1 zero", "a 2 one", "a 3 two", "a 4 thre"]);
  const rows = await connection.sql`
    select last_sequence::int as last, envelopes from ingest_block order by 1`;
  expect(rows).toEqual([
    { last: 1, envelopes: 1 },
    { last: 3, envelopes: 2 },
    { last: 4, envelopes: 1 },
  ]);
});

it("writes an object at once after an idle while, else 200 ms after the last one began or once 8 MB wait", async () => {
  const clock = createTestClock();
  const batches: number[] = [];
  const committer = await start({
    clock,
    observe: { batch: ({ frames }) => batches.push(frames) },
  });
  await committer.commit(frame("a", 1), 1);
  const second = committer.commit(frame("b", 1), 1);
  await clock.advance(150);
  const third = committer.commit(frame("c", 1), 1);
  await clock.advance(49);
  expect(store.objects.size).toBe(1);
  await clock.advance(1);
  await Promise.all([second, third]);
  const fourth = committer.commit(frame("d", 1), 1);
  await Promise.all([fourth, committer.commit(frame("e", 1), objectBytes)]);
  // The interval began anew with the last object.
  const sixth = committer.commit(frame("f", 1), 1);
  await clock.advance(199);
  expect(store.objects.size).toBe(3);
  await clock.advance(1);
  await sixth;
  await clock.advance(1_000);
  await committer.commit(frame("g", 1), 1);
  expect(batches).toEqual([1, 2, 2, 1, 1]);
});

it("writes at most five objects a second from hosts that send a little all the time", async () => {
  const clock = createTestClock();
  const committer = await start({ clock });
  const sent: Promise<unknown>[] = [];
  for (let at = 0; at < 2_000; at += 20) {
    sent.push(committer.commit(frame(`h${at}`, 1), 1));
    await clock.advance(20);
  }
  // With a slow database the last batch begins later.
  await clock.advance(200);
  await Promise.all(sent);
  expect(store.objects.size).toBeLessThanOrEqual(11);
});

it("writes each batch of a queue once, although a later one is written first", async () => {
  const committer = await start();
  await committer.commit(frame("a", 1), objectBytes);
  const put = Promise.withResolvers<void>();
  store.beforePut = () => {
    store.beforePut = async () => undefined;
    return put.promise;
  };
  const earlier = committer.commit(frame("a", 2), objectBytes);
  const later = committer.commit(frame("a", 3), objectBytes);
  await expect.poll(() => store.objects.size).toBe(2);
  // A transaction that began before that of the earlier batch could not commit.
  const isIdle = () =>
    connection.sql`select from pg_stat_activity
      where application_name = 'svc-server ingest' and datname = current_database() and state <> 'idle'`;
  await expect.poll(isIdle).toEqual([]);
  put.resolve();
  await Promise.all([earlier, later]);
  expect(await stored()).toEqual(["a 1 p", "a 2 p", "a 3 p"]);
  expect(store.objects.size).toBe(3);
});

it("stores what two cores receive of the same queues once, each in objects of its own", async () => {
  const cores = [await start(), await start()] as const;
  const sent = Array.from({ length: 12 }, (_, at) => frame(`h${at % 3}`, Math.floor(at / 3) + 1));
  const accepted = new Set<string>();
  // As a host that reconnects to the other core and sends again what was not acknowledged.
  const send = async (core: number) => {
    for (let round = 0; accepted.size < 12 && round < 20; round++)
      await Promise.all(
        sent.map(async (each) => {
          const { outcome } = await (cores[core] as Committer).commit(each, 1);
          if (outcome === "committed") accepted.add(`${each.hostId} ${each.lastSequence} p`);
        }),
      );
  };
  await Promise.all([send(0), send(1)]);
  expect(await stored()).toEqual([...accepted].sort());
  expect(accepted.size).toBe(12);
});

it("stores a frame once whose core was killed between the object and its commit", async () => {
  const killed = await start();
  const put = Promise.withResolvers<void>();
  store.beforePut = () => put.promise;
  const lost = killed.commit(frame("a", 1), 1).catch((cause: unknown) => cause);
  await expect
    .poll(() => connection.sql`select from ingest_object`.then((rows) => rows.length))
    .toBe(64);
  await connection.sql`select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'svc-server ingest' and datname = current_database()`;
  store.beforePut = async () => undefined;
  put.resolve();
  expect(await lost).toMatchObject({ code: "database_unavailable" });
  expect(store.objects.size).toBe(1);
  expect(await stored()).toEqual([]);
  const other = await start();
  await other.commit(frame("a", 1), 1);
  expect(await stored()).toEqual(["a 1 p"]);
  // The first core may have probed the store by then, with an object of its own.
  expect(store.objects.size).toBeGreaterThanOrEqual(2);
  expect(await states()).toHaveLength(1);
});

it("takes another name where a part of an object is in its place", async () => {
  const committer = await start();
  store.beforePut = async (name) => {
    if (store.objects.size === 0) store.objects.set(name, Buffer.of(1));
  };
  await committer.commit(frame("a", 1), 1);
  expect(await stored()).toEqual(["a 1 p"]);
  expect(await states()).toEqual([{ id: 2, state: 1 }]);
});

it("rejects frames while the store is unavailable, and is not ready until an object can be written", async () => {
  const clock = createTestClock();
  const committer = await start({ clock });
  store.beforePut = () => {
    throw new ObjectStoreUnavailable("it is away");
  };
  const refused = committer.commit(frame("a", 1), 1).catch((cause: unknown) => cause);
  expect(await refused).toMatchObject({ code: "store_unavailable" });
  const isHealthy = () => committer.health().healthy;
  expect(isHealthy()).toBe(false);
  // The database alone does not suffice.
  let probes = 0;
  store.beforePut = async () => {
    if (++probes < 3) throw new ObjectStoreUnavailable("it is away");
  };
  for (const probe of [1, 2]) {
    await clock.advance(500);
    await expect.poll(() => probes).toBe(probe);
    expect(isHealthy()).toBe(false);
  }
  await expect.poll(() => clock.advance(500).then(isHealthy)).toBe(true);
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

it("gives up after a second the deletion of an object whose batch was rejected", async () => {
  const { db } = connection;
  const clock = createTestClock();
  const { promise: deleting, resolve: deletes } = Promise.withResolvers<AbortSignal | undefined>();
  const writer = createObjectWriter({
    db,
    store: {
      put: async () => undefined,
      delete: (_, signal) => {
        deletes(signal);
        return new Promise(() => undefined);
      },
    },
    storeId: await noteStore(db, "memory:/"),
    lineage: "test",
    observe: { objectWrite: () => undefined },
    clock,
    entropy: systemEntropy,
  });
  const batch = { queues: [], blocks: [], isSettled: true, now: clock.now() };
  writer.discard(await writer.write(batch));
  const signal = await deleting;
  await clock.advance(1_000);
  expect(signal?.aborted).toBe(true);
});
