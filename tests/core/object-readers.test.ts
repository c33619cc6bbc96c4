/* Every reader of telemetry reads blocks in objects as it reads those in rows, and names those that are missing or changed. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createPostgresSource } from "#functions/export/open-source.ts";
import { createObjectWriter } from "#functions/ingest/object-writer.ts";
import { createNodeObjectReader } from "#functions/node/ingest/read-objects.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { openObjectStore } from "#functions/node/objects/open-store.ts";
import { claimStore } from "#functions/objects/claim-store.ts";
import { objectNameOf } from "#functions/objects/object-store.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import { acquireExportLease, createExportPosition } from "#functions/store/export/positions.ts";
import { readerSetup } from "#functions/store/export/read-envelopes.ts";
import { destroyClient, openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import { findBlockPlaces, readBlockAt } from "#functions/store/ingest/host-blocks.ts";
import { noteStore } from "#functions/store/ingest/objects.ts";
import { BlockCorrupt, describeDamage } from "#functions/store/ingest/stored-envelope.ts";
import { createTelemetryTable } from "#functions/store/ingest/telemetry-table.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { createTestDelivery } from "#tests/support/deliver-chunks.ts";
import { eventually } from "#tests/support/eventually.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openEnvelopeStore } from "#tests/support/stored-envelopes.ts";

const database = await useTestDatabase();
const { db, sql } = database.connect();
await sql`insert into deployment (tenant_id, created_at) values (gen_random_uuid(), now())`;
const folder = join(newFolder(), "objects");
const objects = createNodeObjectReader(db);
const readers = { db, codec: zstdCodec, objects };
const decoder = new TextDecoder();

/** Stores a line of each host in an object, and of the last one in a row; removes the object of `missing` and changes that of `changed`. */
const storeLines = async () => {
  const location = `directory:${folder}`;
  const needs = { clock: systemClock, entropy: systemEntropy };
  const store = await openObjectStore(location, needs);
  await claimStore(store, { lineage: await readLineageName(db), hasObjects: false });
  const writer = createObjectWriter({
    ...needs,
    db,
    store,
    storeId: await noteStore(db, location),
    lineage: "test",
    observe: { objectWrite: () => undefined },
  });
  const inObjects = await openEnvelopeStore(database, Date.now, writer);
  const inRows = await openEnvelopeStore(database);
  for (const host of ["whole", "missing", "changed"]) await inObjects.lines(host, [`of ${host}`]);
  await inRows.lines("in-row", ["of in-row"]);
  for (const store of [inObjects, inRows]) await store.close();
  const named = await sql<{ id: number; nonce: string }[]>`
    select id::int, encode(nonce, 'hex') as nonce from ingest_object where state = 1 order by id`;
  const [, missing = "", changed = ""] = named.map(({ id, nonce }) =>
    join(folder, objectNameOf(id, nonce)),
  );
  rmSync(missing);
  const bytes = readFileSync(changed).toString("latin1").replace("of changed", "of another");
  writeFileSync(changed, bytes, "latin1");
};
await storeLines();

const damagedHosts = (damaged: readonly string[]) =>
  damaged.map((block) => /1 envelopes, 1 to 1 of .*, host (\w+),/.exec(block)?.[1]).sort();

it("an export sends what can be read, and counts the rest as lost", async () => {
  await createExportPosition(db, "default", "oldest");
  const { lease } = await acquireExportLease(db, "default", { owner: crypto.randomUUID() });
  if (lease === null) throw new Error("another process has the lease");
  const { lines, damaged, deliverNew } = createTestDelivery(db);
  const source = createPostgresSource({
    ...readers,
    connect: () => openCopyClient(database.url, readerSetup),
    disconnect: destroyClient,
    lease,
    clock: systemClock,
    chunkBytes: 1 << 20,
    silenceMs: 30_000,
  });
  onTestFinished(() => source.close());
  await eventually(async () => {
    await deliverNew(source);
    expect(lines.sort()).toEqual(["of in-row", "of whole"]);
  });
  expect(damagedHosts(damaged)).toEqual(["changed", "missing"]);
  expect((await sql`select lost::int from export_position`)[0]?.lost).toBe(2);
});

it("the telemetry of a host is read, or its block is damaged", async () => {
  const read = async (hostId: string) => {
    const range = { hostId, from: null, to: null, kind: null };
    const places = await findBlockPlaces(db, range, { order: "oldest", limit: 10 });
    const blocks = await Promise.all(places.map((place) => readBlockAt(readers, place)));
    return blocks.flat().map(({ payload }) => decoder.decode(payload));
  };
  expect(await read("whole")).toEqual(["of whole"]);
  expect(await read("in-row")).toEqual(["of in-row"]);
  for (const host of ["missing", "changed"]) await expect(read(host)).rejects.toThrow(BlockCorrupt);
});

it("a copy has what can be read", async () => {
  const damaged: string[] = [];
  const range = { from: new Date(0), to: new Date("9999-01-01") };
  const copied = await createTelemetryTable(
    sql,
    { ...range, table: "copied", onDamaged: (block) => void damaged.push(describeDamage(block)) },
    readers,
  );
  expect(copied).toBe(2);
  expect(damagedHosts(damaged)).toEqual(["changed", "missing"]);
  const rows = await sql`select host_id from copied order by 1`;
  expect(rows.map(({ host_id }) => host_id)).toEqual(["in-row", "whole"]);
});
