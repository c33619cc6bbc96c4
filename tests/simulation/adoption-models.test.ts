/** Holds the model of the server to PostgreSQL where core adopts objects: the same ones are adopted, and the same cursors are left. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { createObjectAdopter } from "#functions/ingest/adopt-objects.ts";
import { createObjectWriter } from "#functions/ingest/object-writer.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { commitBatch, openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { noteStore } from "#functions/store/ingest/objects.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestLog } from "../fakes/log.ts";
import { createMemoryStore, unobservedLosses } from "../fakes/object-store.ts";
import { useTestDatabase } from "../support/database.ts";
import { testRun } from "../support/stored-envelopes.ts";
import { connectCommitClient } from "./commit-client.ts";
import { createDatabaseServer } from "./database.ts";
import { connectExportDatabase } from "./export-database.ts";
import { createQueueStatements } from "./queue-statements.ts";
import type { Tables } from "./tables.ts";
import { inWorld } from "./world.ts";

const batch = fc.record({
  frames: fc.array(
    fc.record({ host: fc.constantFrom("a", "b"), count: fc.integer({ min: 1, max: 3 }) }),
    { minLength: 1, maxLength: 2 },
  ),
  isLost: fc.boolean(),
});
const queueId = new Uint8Array(16).fill(7);
const delays = { travelMs: [0, 1], commitMs: [0, 1] } as const;

const frameOf = (hostId: string, from: number, count: number) => ({
  hostId,
  queueId,
  previousSequence: BigInt(from),
  lastSequence: BigInt(from + count),
  receivedAt: 1_000,
  run: testRun(
    Array.from({ length: count }, (_, at) => ({
      sequence: BigInt(from + at + 1),
      kind: "log_line",
      payload: Buffer.from(`${hostId} ${from + at + 1}`),
    })),
  ),
});

const cursorsIn = ({ cursors }: Tables) =>
  [...cursors]
    .map(([row, { cursor, rangeStored, rangeLost }]) => [
      row.split("\0")[0],
      cursor,
      rangeStored,
      rangeLost,
    ])
    .toSorted();

it("adopts what core adopts on PostgreSQL", async () => {
  const database = await useTestDatabase();
  const { db, sql } = database.connect();
  const client = await openCommitClient(database.url);
  const store = createMemoryStore();
  const shared = {
    storeId: await noteStore(db, "memory:/"),
    lineage: "test",
    codec: zstdCodec,
    clock: systemClock,
    entropy: systemEntropy,
    log: createTestLog(),
    objects: { storeOf: async () => store },
    observe: { ...unobservedLosses, objectWrite: () => undefined },
  };
  const empty = () =>
    sql.unsafe(
      "truncate ingest_cursor; truncate ingest_block; truncate ingest_object restart identity; truncate ingest_hour",
    );
  const property = fc.asyncProperty(fc.array(batch, { maxLength: 6 }), async (batches) => {
    await empty();
    store.objects.clear();
    const objects = createObjectWriter({ ...shared, db, store });
    const last = new Map<string, number>();
    for (const { frames, isLost } of batches) {
      const before = new Set(store.objects.keys());
      const sent = frames.map(({ host, count }) => {
        const from = last.get(host) ?? 0;
        last.set(host, from + count);
        return frameOf(host, from, count);
      });
      await commitBatch(client, sent, { codec: zstdCodec, now: () => 1_000, objects });
      if (isLost)
        for (const name of store.objects.keys()) if (!before.has(name)) store.objects.delete(name);
    }
    await empty();
    const connect = () => openCommitClient(database.url);
    await createObjectAdopter({ ...shared, db, connect }).recover();
    const cursors = await sql`select host_id, cursor::int, range_stored::int, range_lost::int
      from ingest_cursor order by host_id`;
    const states = await sql`select id::int, state from ingest_object order by id`;

    const model = await inWorld(1, async (world) => {
      const server = createDatabaseServer(world, {}, store.objects);
      const core = world.process("core");
      const needs = { server, core, client: core, delays, onOpened: () => undefined };
      const adopter = createObjectAdopter({
        ...shared,
        clock: world.clockOf(core),
        entropy: world.entropy,
        db: connectExportDatabase(world, needs, createQueueStatements(server)),
        connect: () => connectCommitClient(world, needs),
      });
      const adopted = adopter.recover();
      await world.runUntil(60_000);
      await adopted;
      return server;
    });
    expect([...model.unknown]).toEqual([]);
    expect(cursorsIn(model.tables)).toEqual(cursors.map((row) => Object.values(row)));
    expect([...model.tables.objects.values()].map(({ id, state }) => ({ id, state }))).toEqual(
      states.map((row) => ({ ...row })),
    );
  });
  try {
    await fc.assert(property, { numRuns: 20 });
  } finally {
    await client.end();
  }
});
