import { expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createMemoryStore, unobservedLosses } from "#tests/fakes/object-store.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { createObjectAdopter } from "../ingest/adopt-objects.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import { objectNameOf } from "../objects/object-store.ts";
import { openCommitClient } from "../store/ingest/commit-batch.ts";
import { createObjectReader } from "../store/ingest/object-data.ts";
import { type DrawnObject, drawObjects, noteStore } from "../store/ingest/objects.ts";
import { createPartition } from "../store/ingest/partitions.ts";
import { sweepObjects } from "./sweep-objects.ts";

const day = Date.UTC(2026, 10, 30);
const nameOf = ({ id, nonce }: DrawnObject) => objectNameOf(id, nonce);

it("deletes an object an hour after retention dropped its blocks, and a name that has no object, and nothing else", async () => {
  const database = await useTestDatabase();
  const { db, sql } = database.connect();
  const store = createMemoryStore();
  const core = {
    db,
    objects: createObjectReader({ db, codec: zstdCodec, open: async () => store }),
  };
  const storeId = await noteStore(db, "memory:/");
  const { settleOld } = createObjectAdopter({
    db,
    storeId,
    objects: core.objects,
    lineage: "test",
    codec: zstdCodec,
    connect: () => openCommitClient(database.url),
    log: createTestLog(),
    clock: systemClock,
    entropy: systemEntropy,
    observe: unobservedLosses,
  });
  const drawn = await drawObjects(db, { storeId, nonce: "0011223344556677", count: 3 });
  const [dropped, kept, unused] = drawn as [DrawnObject, DrawnObject, DrawnObject];
  for (const object of [dropped, kept]) await store.put(nameOf(object), [Buffer.of(1)]);
  const consume = ({ id }: DrawnObject, receivedAt: number) =>
    sql`select consume_ingest_object(${id}, nonce, 1, ${new Date(receivedAt).toISOString()}) from ingest_object where id = ${id}`;
  await consume(dropped, day - 1);
  await consume(kept, day);
  await createPartition(db, day);
  const passHour = () =>
    sql`update ingest_object set changed_at = changed_at - interval '61 minutes'`;
  const states = async () =>
    (
      await sql<{ id: string; state: number }[]>`select id, state from ingest_object order by id`
    ).map(({ id, state }) => `${id} ${state}`);

  const early = { ...core, settleOld: async () => undefined };
  expect(await sweepObjects(early)).toEqual({ marked: 1, deleted: 0 });
  expect(store.objects.has(nameOf(dropped))).toBe(true);
  await passHour();
  expect(await sweepObjects({ ...core, settleOld })).toEqual({
    marked: 0,
    deleted: 1,
  });
  expect(await states()).toEqual(["2 1", "3 2"]);
  expect([...store.objects.keys()]).toEqual([nameOf(kept)]);
  await expect(consume(unused, day)).rejects.toMatchObject({ code: "IC002" });
  await passHour();
  // The last name stays until another one is drawn.
  expect(await sweepObjects({ ...core, settleOld })).toBeUndefined();
  expect(await states()).toEqual(["2 1", "3 2"]);
  await drawObjects(db, { storeId, nonce: "0011223344556677", count: 1 });
  expect(await sweepObjects({ ...core, settleOld })).toEqual({ marked: 0, deleted: 1 });
  expect(await states()).toEqual(["2 1", "4 0"]);
});
