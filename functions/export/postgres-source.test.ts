import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../tests/database.ts";
import { eventually } from "../../tests/eventually.ts";
import { type EnvelopeStore, openEnvelopeStore } from "../../tests/stored-envelopes.ts";
import { destroyClient, openCopyClient } from "../store/copy-transaction.ts";
import type { ConnectedDatabase } from "../store/database.ts";
import { findExportLags } from "../store/export-lag.ts";
import {
  acquireExportLease,
  createExportPosition,
  ExportLeaseLost,
  ExportPositionAhead,
} from "../store/export-positions.ts";
import { readerSetup } from "../store/read-envelopes.ts";
import { createPostgresSource } from "./postgres-source.ts";
import type { ClosableSource, ExportChunk } from "./source.ts";

let database: TestDatabase;
let store: EnvelopeStore;
let connection: ConnectedDatabase;
const sources: ClosableSource[] = [];
beforeEach(async () => {
  database = await createTestDatabase();
  connection = database.connect();
  store = await openEnvelopeStore(database);
});
afterEach(async () => {
  for (const source of sources.splice(0)) source.close();
  await store.close();
  await database.drop();
});

const none = { exported: 0, rejectedItems: 0, deadLetters: [] };
const openSource = async ({
  start = "oldest",
  chunkBytes = 1 << 20,
}: {
  start?: "oldest" | "now";
  chunkBytes?: number;
} = {}) => {
  await createExportPosition(connection.db, "default", start);
  const lease = await acquireExportLease(connection.db, "default", crypto.randomUUID());
  if (lease === null) throw new Error("another process has the lease");
  const source = createPostgresSource({
    db: connection.db,
    connect: () => openCopyClient(database.url, readerSetup),
    disconnect: destroyClient,
    lease,
    clock: { monotonic: () => performance.now() },
    chunkBytes,
  });
  sources.push(source);
  return source;
};
const decoder = new TextDecoder();
const linesOf = ({ queues }: ExportChunk) => queues.map((queue) => queue.map(({ payload }) => decoder.decode(payload)));
/** Reads until so many envelopes have come: transactions of other tests, on the same server, hold the source up. */
const readChunks = async (source: ClosableSource, envelopes: number): Promise<ExportChunk[]> => {
  const chunks: ExportChunk[] = [];
  await eventually(async () => {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read())
      if (chunk.envelopes > 0) chunks.push(chunk);
    expect(chunks.reduce((sum, chunk) => sum + chunk.envelopes, 0)).toBe(envelopes);
  });
  return chunks;
};
const readLines = async (source: ClosableSource, lines: number) =>
  (await readChunks(source, lines)).flatMap(linesOf).flat();
const expireLease = () => connection.sql`update export_position set lease_until = now() - interval '1 s'`;

describe("the source of an export", () => {
  it("returns every column as it is stored", async () => {
    const attributes = { "file.path": "/var/log/ä.log", 'a"b': "\\" };
    const payload = crypto.getRandomValues(new Uint8Array(9_000));
    await store.envelopes("h", [{ attributes, payload, kind: "otel_span", source: "ö" }, { observedAt: undefined }]);
    const [chunk] = await readChunks(await openSource(), 2);
    expect(chunk?.queues[0]).toMatchObject([
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
    const [row] = await connection.sql<{ at: string }[]>`
      select (extract(epoch from received_at) * 1e6)::bigint::text as at from ingest_envelope limit 1`;
    expect(chunk?.queues[0]?.[0]?.receivedAt.toString()).toBe(row?.at);
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
      for (const host of ["a", "b"]) await store.lines(host, [`${host}${batch * 2}`, `${host}${batch * 2 + 1}`]);
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

  it("begins behind all that is stored, if it should", async () => {
    await store.lines("a", ["old"]);
    // A transaction of another test, on the same server, that began before the row keeps the beginning in front of it.
    await eventually(async () => {
      const [row] = await connection.sql<{ isSettled: boolean }[]>`
        select xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint as "isSettled" from ingest_envelope`;
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
    const envelope = chunk?.queues[0]?.[1];
    if (!chunk || !envelope) throw new Error("nothing was read");
    expect(await findExportLags(connection.db)).toMatchObject([{ envelopes: 2, isRunning: true, deadLetters: 0 }]);
    await first.commit(chunk, { exported: 1, rejectedItems: 3, deadLetters: [{ envelope, reason: "HTTP 400" }] });
    await store.lines("a", ["3"]);
    const [lag] = await findExportLags(connection.db);
    expect(lag).toMatchObject({ name: "default", envelopes: 1, deadLetters: 1 });
    expect(lag?.ageSeconds).toBeLessThan(60);
    await expireLease();
    expect(await readLines(await openSource(), 1)).toEqual(["3"]);
    const [stored] = await connection.sql<{ reason: string; payload: Uint8Array; sequence: string }[]>`
      select reason, payload, sequence from export_dead_letter`;
    expect(stored).toMatchObject({ reason: "HTTP 400", sequence: "2" });
    expect(decoder.decode(stored?.payload)).toBe("2");
  });

  it("lets only the owner of the lease move the position", async () => {
    await store.lines("a", ["1"]);
    const paused = await openSource();
    const [chunk] = await readChunks(paused, 1);
    if (!chunk) throw new Error("nothing was read");
    expect(await acquireExportLease(connection.db, "default", "other")).toBeNull();
    await expireLease();
    const other = await openSource();
    await expect(paused.commit(chunk, none)).rejects.toThrow(ExportLeaseLost);
    expect(await readLines(other, 1)).toEqual(["1"]);
  });

  it("does not start ahead of the server, as after a restore from a dump", async () => {
    await createExportPosition(connection.db, "default", "oldest");
    await connection.sql`update export_position set position = 1000000000000000`;
    await expect(acquireExportLease(connection.db, "default", "me")).rejects.toThrow(ExportPositionAhead);
    expect(await findExportLags(connection.db)).toMatchObject([{ isRunning: false }]);
  });
});
