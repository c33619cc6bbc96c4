import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createMemoryStore } from "#tests/fakes/object-store.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { openEnvelopeStore } from "#tests/support/stored-envelopes.ts";
import { createObjectWriter } from "../ingest/object-writer.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import { createObjectReader } from "../store/ingest/object-data.ts";
import { noteStore } from "../store/ingest/objects.ts";
import { checkObjects } from "./check-objects.ts";

it("names the host and the range of each object that the store has lost or has not whole", async () => {
  const database = await useTestDatabase();
  const { db } = database.connect();
  const store = createMemoryStore();
  const storeId = await noteStore(db, "memory:/");
  const writer = createObjectWriter({
    db,
    store,
    storeId,
    lineage: "test",
    clock: systemClock,
    entropy: systemEntropy,
    observe: { objectWrite: () => undefined },
  });
  const envelopes = await openEnvelopeStore(database, Date.now, writer);
  onTestFinished(() => envelopes.close());
  for (const host of ["whole", "missing", "short", "late"]) await envelopes.lines(host, ["a line"]);
  const log = createTestLog();
  const objectsOf = (opened: typeof store) =>
    createObjectReader({ db, codec: zstdCodec, open: async () => opened });
  const core = { db, log, objects: objectsOf(store) };
  expect(await checkObjects(core)).toBeUndefined();

  const [, missing = "", short = "", late = ""] = store.objects.keys();
  store.objects.delete(missing);
  store.objects.set(short, Buffer.of(1));
  const listing: typeof store.list = async (query) =>
    (await store.list(query)).filter(({ name }) => name !== late);
  const listedLate = objectsOf({ ...store, list: listing });
  expect(await checkObjects({ ...core, objects: listedLate })).toEqual({ missing: 2 });
  expect(log.lines).toMatchObject(
    ["missing", "short"].map((host) => ({
      level: "error",
      fields: { damaged: [expect.stringMatching(`1 envelopes, 1 to 1 of .*, host ${host},`)] },
    })),
  );
});
