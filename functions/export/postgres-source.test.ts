import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { startDatabaseProxy } from "#tests/fakes/tcp-proxy.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { createTestDelivery, envelopesIn } from "#tests/support/deliver-chunks.ts";
import { eventually } from "#tests/support/eventually.ts";
import { type EnvelopeStore, openEnvelopeStore } from "#tests/support/stored-envelopes.ts";
import { createNodeObjectReader } from "../node/ingest/read-objects.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { findExportLags } from "../store/export/lag.ts";
import {
  acquireExportLease,
  createExportPosition,
  ExportLeaseLost,
  noOutcome,
  PositionOfOtherDatabase,
  renewExportLease,
} from "../store/export/positions.ts";
import { readerSetup } from "../store/export/read-envelopes.ts";
import { adoptExports } from "../store/export/renumber-envelopes.ts";
import { blockColumns } from "../store/ingest/block-rows.ts";
import { destroyClient, openCopyClient } from "../store/ingest/copy-transaction.ts";
import { createPostgresSource } from "./open-source.ts";
import type { ExportChunk, ExportSource } from "./source.ts";

let database: TestDatabase;
let store: EnvelopeStore;
let connection: ConnectedDatabase;
const sources: ExportSource[] = [];
beforeEach(async () => {
  database = await useTestDatabase();
  connection = database.connect();
  store = await openEnvelopeStore(database);
});
afterEach(async () => {
  for (const source of sources.splice(0)) source.close();
  await store.close();
});

const openSource = async ({
  start = "oldest",
  chunkBytes = 1 << 20,
  url = database.url,
  silenceMs = 30_000,
}: {
  start?: "oldest" | "now";
  chunkBytes?: number;
  url?: string;
  silenceMs?: number;
} = {}) => {
  await createExportPosition(connection.db, "default", start);
  const { lease } = await acquireExportLease(connection.db, "default", {
    owner: crypto.randomUUID(),
  });
  if (lease === null) throw new Error("another process has the lease");
  const source = createPostgresSource({
    codec: zstdCodec,
    objects: createNodeObjectReader(connection.db),
    db: connection.db,
    connect: () => openCopyClient(url, readerSetup),
    disconnect: destroyClient,
    lease,
    clock: { monotonic: () => performance.now() },
    chunkBytes,
    silenceMs,
  });
  sources.push(source);
  return source;
};
const decoder = new TextDecoder();
const linesOf = (chunk: ExportChunk) =>
  envelopesIn(chunk).map((queue) => queue.map(({ payload }) => decoder.decode(payload)));
/** Reads until so many envelopes have come: transactions of other tests, on the same server, hold the source up. */
const readChunks = async (source: ExportSource, envelopes: number) => {
  const chunks: ExportChunk[] = [];
  await eventually(async () => {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read())
      if (chunk.envelopes > 0) chunks.push(chunk);
    expect(chunks.reduce((sum, chunk) => sum + chunk.envelopes, 0)).toBe(envelopes);
  });
  return chunks;
};
const readLines = async (source: ExportSource, lines: number) =>
  (await readChunks(source, lines)).flatMap(linesOf).flat();
/** Renews the lease of whoever has it. */
const renewLease = async () => {
  const [row] = await connection.sql<
    { owner: string; epoch: number }[]
  >`select owner, epoch from export_position`;
  if (row === undefined) throw new Error("there is no lease");
  await renewExportLease(
    connection.db,
    { ...row, name: "default", position: 0n, identity: null },
    null,
  );
};
const expireLease = () =>
  connection.sql`update export_position set lease_until = now() - interval '1 s'`;

it("returns every column as it is stored", async () => {
  const attributes = { "file.path": "/var/log/ä.log", 'a"b': "\\" };
  const payload = crypto.getRandomValues(new Uint8Array(9_000));
  await store.envelopes("h", [
    { attributes, payload, kind: "otel_span", source: "ö" },
    { observedAt: undefined },
  ]);
  const [chunk = { queues: [] }] = await readChunks(await openSource(), 2);
  const [found] = envelopesIn(chunk);
  expect(found).toMatchObject([
    {
      hostId: "h",
      sequence: 1n,
      kind: "otel_span",
      source: "ö",
      attributes,
      payload,
      observedAt: 1_795_000_000_000_005n,
    },
    { sequence: 2n, observedAt: null },
  ]);
  const [row] = await connection.sql`
      select (extract(epoch from received_at) * 1e6)::bigint::text as at from ingest_block limit 1`;
  expect(found?.[0]?.receivedAt.toString()).toBe(row?.at);
});

it("passes over a damaged block, names it and counts its envelopes as lost", async () => {
  await store.lines("h", ["1"]);
  await store.lines("h", ["2", "3"]);
  await connection.sql`update ingest_block set data = substr(data, 2) where first_sequence = 2`;
  await store.lines("h", ["4"]);
  const source = await openSource();
  const { lines, damaged, deliverNew } = createTestDelivery(connection.db);
  await eventually(async () => {
    await deliverNew(source);
    expect(lines).toEqual(["1", "4"]);
  });
  expect(damaged).toEqual([
    expect.stringMatching(/^damaged,2 envelopes, 2 to 3 of queue 0707.*, host h, received at 20/),
  ]);
  expect(await connection.sql`select passed::int, lost::int from export_position`).toEqual([
    { passed: 2, lost: 2 },
  ]);
});

it("returns nothing that begins after a transaction that has not ended, and skips nothing of it", async () => {
  const source = await openSource();
  await store.lines("a", ["1"]);
  expect(await readLines(source, 1)).toEqual(["1"]);
  const open = await openCopyClient(database.url);
  await open.query("begin");
  // It has an id below those of the rows that commit before it.
  await open.query(`insert into ingest_envelope (host_id, queue_id, sequence, kind, received_at, source, attributes, payload)
      values ('late', '\\x00', 1, 'log_line', now(), '', '{}', 'late')`);
  await store.lines("a", ["2"]);
  expect(await source.read()).toBeNull();
  await open.query("commit");
  await store.lines("a", ["3"]);
  expect((await readLines(source, 3)).sort()).toEqual(["2", "3", "late"]);
  await open.end();
});

it("keeps the order of each queue over chunks of any size", async () => {
  for (let batch = 0; batch < 30; batch++)
    for (const host of ["a", "b"])
      await store.lines(host, [`${host}${batch * 2}`, `${host}${batch * 2 + 1}`]);
  const chunks = await readChunks(await openSource({ chunkBytes: 600 }), 120);
  expect(chunks.length).toBeGreaterThan(5);
  for (const host of ["a", "b"]) {
    const lines = chunks
      .flatMap(linesOf)
      .flat()
      .filter((line) => line.startsWith(host));
    expect(lines).toEqual(Array.from({ length: 60 }, (_, index) => `${host}${index}`));
  }
});

it("D8: rejects when its connection falls silent, though others still work", async () => {
  const { proxy, url } = await startDatabaseProxy(database.url);
  onTestFinished(() => proxy.close());
  const source = await openSource({ url, silenceMs: 300 });
  await store.lines("a", ["1"]);
  expect(await readLines(source, 1)).toEqual(["1"]);
  proxy.swallowOpen();
  await store.lines("a", ["2"]);
  await eventually(() => expect(source.read()).rejects.toThrow("terminated"));
  expect(await readLines(source, 1)).toEqual(["2"]);
});

it("begins behind all that is stored, if it should", async () => {
  await store.lines("a", ["old"]);
  // A transaction of another test, on the same server, that began before the row keeps the beginning in front of it.
  await eventually(async () => {
    const [row] = await connection.sql`
        select xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint as "isSettled" from ingest_block`;
    expect(row?.isSettled).toBe(true);
  });
  const source = await openSource({ start: "now" });
  await store.lines("a", ["new"]);
  expect(await readLines(source, 1)).toEqual(["new"]);
});

it("continues from the committed position, stores dead letters with it, and reports how far it is behind", async () => {
  await store.lines("a", ["1", "2"]);
  const first = await openSource();
  const [chunk] = await readChunks(first, 2);
  const envelope = chunk && envelopesIn(chunk)[0]?.[1];
  if (!chunk || !envelope) throw new Error("nothing was read");
  expect(await findExportLags(connection.db)).toMatchObject([
    { envelopes: 2, isRunning: true, deadLetters: 0 },
  ]);
  await chunk.commit({
    ...noOutcome,
    exported: 1,
    rejectedItems: 3,
    deadLetters: [{ envelope, reason: "HTTP 400" }],
  });
  await store.lines("a", ["3"]);
  const [lag] = await findExportLags(connection.db);
  expect(lag).toMatchObject({ name: "default", envelopes: 1, deadLetters: 1 });
  expect(lag?.ageSeconds).toBeLessThan(60);
  await expireLease();
  expect(await readLines(await openSource(), 1)).toEqual(["3"]);
  const [stored] = await connection.sql`
      select reason, payload, sequence from export_dead_letter`;
  expect(stored).toMatchObject({ reason: "HTTP 400", sequence: "2" });
  expect(decoder.decode(stored?.payload)).toBe("2");
});

it.each([-2, 2])(
  "K1: skips nothing while the database's clock is %i days off, and counts what is pending",
  async (days) => {
    await store.lines("a", ["1"]);
    const source = await openSource();
    for (const chunk of await readChunks(source, 1)) await chunk.commit(noOutcome);
    // The clock is wrong when the position moves, or when core stamps the rows.
    await connection.sql`update export_position set position_at = now() + ${`${Math.max(0, days)} days`}::interval`;
    const other = await openEnvelopeStore(
      database,
      () => Date.now() + Math.min(0, days) * 86_400_000,
    );
    await other.lines("b", ["2", "3"]);
    await other.close();
    await expireLease();
    expect(await findExportLags(connection.db)).toMatchObject([{ envelopes: 2 }]);
    expect(await readLines(await openSource(), 2)).toEqual(["2", "3"]);
  },
);

it("K1: reports envelopes that a reader has passed over, whatever made it do so", async () => {
  await store.lines("a", ["1", "2", "3"]);
  const source = await openSource();
  await readChunks(source, 3);
  await store.lines("a", ["4", "5"]);
  // A reader that misses rows moves the position over them all the same.
  await connection.sql`
      update export_position set passed = 3, stored_before = 0, position = pg_current_xact_id()::text::bigint`;
  expect(await findExportLags(connection.db)).toMatchObject([{ envelopes: 2, unaccounted: 2 }]);
});

it("K1: takes a lease over whose end does not move, though the database's clock says that it has years to go", async () => {
  await openSource();
  const { sql } = connection;
  const [row] = await sql`
      update export_position set lease_until = now() + interval '2 years' returning lease_until::text as until`;
  const first = await acquireExportLease(connection.db, "default", { owner: "other" });
  expect(first).toEqual({ lease: null, heldUntil: row?.until });
  expect(
    await acquireExportLease(connection.db, "default", { owner: "other", seenUntil: "another" }),
  ).toMatchObject({
    lease: null,
  });
  expect(
    await acquireExportLease(connection.db, "default", { owner: "other", seenUntil: row?.until }),
  ).toMatchObject({
    lease: { owner: "blocks other" },
  });
});

it("stores thousands of dead letters without a moment in which the lease cannot be renewed", async () => {
  await store.lines("a", ["1"]);
  const source = await openSource();
  const [chunk] = await readChunks(source, 1);
  const envelope = chunk && envelopesIn(chunk)[0]?.[0];
  if (!chunk || !envelope) throw new Error("nothing was read");
  const deadLetters = Array.from({ length: 3_000 }, () => ({ envelope, reason: "HTTP 400" }));
  const order: string[] = [];
  const moved = chunk.commit({ ...noOutcome, deadLetters }).then(() => order.push("moved"));
  const renewed = renewLease().then(() => order.push("renewed"));
  await Promise.all([moved, renewed]);
  expect(order).toEqual(["renewed", "moved"]);
  expect(await findExportLags(connection.db)).toMatchObject([{ deadLetters: 3_000 }]);
});

it("D7: lets no export of a version that reads no blocks renew its lease, move the position or take over", async () => {
  const { sql } = connection;
  await openSource();
  // As when it held the lease before the database was migrated, and as its statements are.
  await sql`update export_position set owner = 'previous'`;
  for (const statement of [
    "set lease_until = clock_timestamp()",
    "set position = position + 1",
    "set owner = 'another', lease_until = clock_timestamp(), epoch = epoch + 1",
  ])
    await expect(sql.unsafe(`update export_position ${statement}`)).rejects.toThrow(
      "this version reads no blocks of telemetry and would pass over them: export with the version of the newest core",
    );
  // Cores count on it, it releases its lease, and this version takes over.
  await sql`update export_position set lost = lost + 1, position_at = position_at`;
  await sql`update export_position set owner = null`;
  await store.lines("h", ["1"]);
  expect(await readLines(await openSource(), 1)).toEqual(["1"]);
});

it("lets only the owner of the lease move the position", async () => {
  await store.lines("a", ["1"]);
  const paused = await openSource();
  const [chunk] = await readChunks(paused, 1);
  if (!chunk) throw new Error("nothing was read");
  expect(await acquireExportLease(connection.db, "default", { owner: "other" })).toMatchObject({
    lease: null,
  });
  await expireLease();
  const other = await openSource();
  await expect(chunk.commit(noOutcome)).rejects.toThrow(ExportLeaseLost);
  expect(await readLines(other, 1)).toEqual(["1"]);
});

it("K4: refuses a position of another server, and goes on in order once the restored rows are numbered anew", async () => {
  await store.lines("a", ["1", "2"]);
  const source = await openSource();
  for (const chunk of await readChunks(source, 2)) await chunk.commit(noOutcome);
  for (let batch = 0; batch < 3; batch++)
    await store.lines("a", [`${3 + batch * 2}`, `${4 + batch * 2}`]);
  await expireLease();
  // A dump has the ids of the server that it was taken from; these are below and above the ones here.
  const { sql } = connection;
  const shift = 300;
  await sql.unsafe(`
      create table dumped as select *, dense_rank() over (order by xid) as place from ingest_block; truncate ingest_block;
      insert into ingest_block select ${[...blockColumns, ""].join()} xid + ${shift} * place from dumped;
      update export_position set position = position + ${shift} * 1.5, system_identifier = '7', stored_before = null;
      drop table dumped`);
  await store.lines("a", ["9"]);
  await expect(openSource()).rejects.toThrow(PositionOfOtherDatabase);

  expect(await adoptExports(connection.db)).toEqual({ renumbered: 8, adopted: ["default"] });
  expect(await adoptExports(connection.db)).toEqual({ renumbered: 0, adopted: [] });
  expect(await readLines(await openSource({ chunkBytes: 100 }), 7)).toEqual([
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
  ]);
  // A new name begins with all that the dump had.
  await sql`delete from export_position`;
  expect(await readLines(await openSource(), 9)).toHaveLength(9);
});

it("does not start ahead of the server, as after a restore from a dump", async () => {
  await createExportPosition(connection.db, "default", "oldest");
  await connection.sql`update export_position set position = 1000000000000000`;
  await expect(acquireExportLease(connection.db, "default", { owner: "me" })).rejects.toThrow(
    PositionOfOtherDatabase,
  );
  expect(await findExportLags(connection.db)).toMatchObject([{ isRunning: false }]);
});
