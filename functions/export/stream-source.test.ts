import { create } from "@bufbuild/protobuf";
import { MsgHdrsImpl } from "@nats-io/transport-node";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { streamSettings } from "#tests/support/ingest/nats-sink.ts";
import {
  type EnvelopeStore,
  openStreamStore,
  storedQueue,
} from "#tests/support/stored-envelopes.ts";
import { noteExportLags } from "../ingest/nats-sink/export-lags.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { findExportLags } from "../store/export/lag.ts";
import {
  acquireExportLease,
  createExportPosition,
  ExportLeaseLost,
  noOutcome,
  PositionOfOtherSink,
} from "../store/export/positions.ts";
import type { ExportChunk, ExportSource } from "./source.ts";
import { openStreamSource, prepareStreamPosition } from "./stream-source.ts";

const canStart = await canStartNats();

const { stream } = streamSettings;
const clock = {
  sleep: (ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, ms / 10);
      signal?.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(signal.reason);
      });
    }),
};

let nats: RunningNats;
let database: TestDatabase;
let connection: ConnectedDatabase;
let store: EnvelopeStore;
let log = createTestLog();
const sources: ExportSource[] = [];
const deleteStreams = () =>
  Promise.all([stream, `${stream}_QUEUES`].map((name) => nats.manager.streams.delete(name)));
beforeAll(async () => {
  nats = await startNats();
});
beforeEach(async () => {
  database = await useTestDatabase();
  connection = database.connect();
  store = await openStreamStore(nats, database);
  log = createTestLog();
});
afterEach(async () => {
  for (const source of sources.splice(0)) source.close();
  await store.close();
  await deleteStreams().catch(() => undefined);
});
afterAll(() => nats.stop());

const decoder = new TextDecoder();
const openSource = async (start: "oldest" | "now" = "oldest") => {
  const { db } = connection;
  const { manager } = nats;
  await prepareStreamPosition({ db, manager, stream }, "default", start);
  await connection.sql`update export_position set lease_until = now() - interval '1 s'`;
  const { lease } = await acquireExportLease(db, "default", { owner: crypto.randomUUID() });
  if (lease === null) throw new Error("another process has the lease");
  const source = await openStreamSource({
    db,
    manager,
    stream,
    lease,
    clock,
    log,
    codec: zstdCodec,
    connection: nats.connection,
    chunkBytes: 1 << 20,
  });
  sources.push(source);
  return source;
};
const readChunks = async (source: ExportSource, envelopes: number) => {
  const chunks: ExportChunk[] = [];
  await expect
    .poll(async () => {
      const chunk = await source.read();
      if (chunk) chunks.push(chunk);
      return chunks.reduce((sum, each) => sum + each.envelopes, 0);
    })
    .toBe(envelopes);
  return chunks;
};
/** Reads so many envelopes, which are in one chunk. */
const readChunk = async (source: ExportSource, envelopes: number) => {
  const [chunk] = await readChunks(source, envelopes);
  if (!chunk) throw new Error("nothing was read");
  return chunk;
};
const textsOf = (chunks: readonly ExportChunk[]) =>
  chunks.flatMap(({ queues }) => queues.flat().map(({ payload }) => decoder.decode(payload)));
const readLines = async (source: ExportSource, count: number) =>
  textsOf(await readChunks(source, count));

/** Another program takes a message of the source's consumer. */
const steal = async (callback: () => void = () => undefined) => {
  const inbox = nats.connection.subscribe("thief", { callback });
  const next = `$JS.API.CONSUMER.MSG.NEXT.${stream}.svc-export-default`;
  nats.connection.publish(next, '{"batch":1}', { reply: "thief" });
  await nats.connection.flush();
  return inbox;
};
const expectEnd = async (source: ExportSource) => {
  const end = async () => {
    for (;;) await source.read();
  };
  await expect(end()).rejects.toThrow("did not arrive");
};
/** Of each field of a record, headers of a message. */
const headersOf = (fields: Readonly<Record<string, string>>) =>
  MsgHdrsImpl.fromRecord(
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, [value]])),
  );

describe.skipIf(!canStart)("the source of an export from JetStream", () => {
  it("returns every column as it was committed", async () => {
    const attributes = { "file.path": "/var/log/ä.log", 'a"b': "\\", "x\r\nY": "z" };
    const payload = crypto.getRandomValues(new Uint8Array(9_000));
    const host = "spiffe://fleet.test/ho%st/ü";
    const before = BigInt(Date.now()) * 1000n;
    await store.envelopes(host, [
      { attributes, payload, kind: "otel_span", source: "/ö%20\n" },
      { observedAt: undefined },
    ]);
    const [chunk] = await readChunks(await openSource(), 2);
    expect(chunk?.queues).toMatchObject([
      [
        {
          hostId: host,
          queueId: storedQueue,
          sequence: 1n,
          kind: "otel_span",
          source: "/ö%20\n",
          attributes,
          payload,
          observedAt: 1_795_000_000_000_005n,
        },
        { sequence: 2n, kind: "log_line", observedAt: null },
      ],
    ]);
    const at = chunk?.queues[0]?.[0]?.receivedAt ?? 0n;
    expect(at >= before && at <= BigInt(Date.now()) * 1000n).toBe(true);
  });

  it("keeps the order of each queue, and skips fences and what core did not write", async () => {
    const { sink } = store as Awaited<ReturnType<typeof openStreamStore>>;
    for (let batch = 0; batch < 5; batch++)
      for (const host of ["a", "b"])
        await store.lines(host, [`${host}${batch * 2}`, `${host}${batch * 2 + 1}`]);
    const claims = {
      hostId: "a",
      queueId: storedQueue,
      previousSessionIds: [],
      ackedThrough: 10n,
      sentThrough: 10n,
    };
    await sink.open(create(OpenSchema, { ...claims, sessionId: new Uint8Array(16).fill(1) }));
    nats.connection.publish("svc.ingest.log_line.a.foreign", "not an envelope");
    await nats.connection.flush();
    const lines = await readLines(await openSource(), 20);
    for (const host of ["a", "b"])
      expect(lines.filter((line) => line.startsWith(host))).toEqual(
        Array.from({ length: 10 }, (_, index) => `${host}${index}`),
      );
    await expect.poll(() => log.text()).toContain("skipped a foreign message");
  });

  it("returns the kinds of a frame in the order of their sequence", async () => {
    const kinds = ["log_line", "otel_span", "otel_log", "log_line", "otel_span"];
    await store.envelopes(
      "a",
      kinds.map((kind, index) => ({ kind, payload: Buffer.from(String(index)) })),
    );
    expect((await nats.manager.streams.info(stream)).state.messages).toBe(3);
    const [chunk] = await readChunks(await openSource(), 5);
    expect(chunk?.queues.flat().map(({ kind }) => kind)).toEqual(kinds);
  });

  it("returns the envelopes of versions that stored each as a message", async () => {
    const stored = {
      "Svc-Sequence": "7",
      "Svc-Kind": "log_line",
      "Svc-Host": "spiffe://fleet.test/%C3%BC",
      "Svc-Queue": Buffer.from(storedQueue).toString("hex"),
      "Svc-Received-At": "2026-11-18T11:06:41.000000Z",
      "Svc-Observed-At": "2026-11-18T11:06:40.000005Z",
      "Svc-Source": "/%0A",
      "Svc-Attributes": '{"a":"\\n"}',
    };
    nats.connection.publish("svc.ingest.log_line.a.b", "a line", {
      headers: headersOf(stored),
    });
    const [chunk] = await readChunks(await openSource(), 1);
    expect(chunk?.queues).toEqual([
      [
        {
          hostId: "spiffe://fleet.test/ü",
          queueId: storedQueue,
          sequence: 7n,
          kind: "log_line",
          source: "/\n",
          observedAt: 1_795_000_000_000_005n,
          receivedAt: 1_795_000_001_000_000n,
          attributes: { a: "\n" },
          payload: new Uint8Array(Buffer.from("a line")),
        },
      ],
    ]);
  });

  it("returns no more at once than was aimed at, before compression", async () => {
    const large = Buffer.alloc(900_000, "telemetry ");
    for (let block = 0; block < 4; block++) await store.lines("a", [large.toString()]);
    const chunks = await readChunks(await openSource(), 4);
    expect(chunks.map(({ envelopes }) => envelopes)).toEqual([1, 1, 1, 1]);
    expect(chunks.every(({ bytes }) => bytes > 900_000 && bytes < 1 << 20)).toBe(true);
  });

  it("passes over a damaged block of core's, names it and counts its envelopes as lost", async () => {
    await store.lines("a", ["x".repeat(3_000)]);
    const first = await nats.manager.streams.getMessage(stream, { seq: 1 });
    first?.header.delete("Nats-Expected-Last-Subject-Sequence");
    const send = (change: Record<string, string>, data = first?.data) => {
      const sent = (first?.header.keys() ?? []).map((name) => [
        name,
        first?.header.get(name) ?? "",
      ]);
      const headers = headersOf(Object.assign(Object.fromEntries(sent), change));
      nats.connection.publish("svc.ingest.log_line.a.b", data, { headers });
    };
    send({ "Svc-Raw-Bytes": "5" });
    send({ "Svc-Raw-Bytes": "1000000000000" });
    send({ "Svc-Encoding": "gzip" });
    send({}, new Uint8Array(9));
    send({ "Svc-Sequence": "2" });
    const source = await openSource();
    const chunks = await readChunks(source, 2);
    expect(textsOf(chunks)).toHaveLength(2);
    for (const chunk of chunks) await chunk.commit(noOutcome);
    expect(log.text()).not.toContain("foreign");
    const damaged = log.lines.flatMap(({ level, fields }) => (level === "error" ? [fields] : []));
    const named = expect.stringMatching(
      /^1 envelopes, 1 to 1 of queue 0707.*, host a, received at 20/,
    );
    expect(damaged).toEqual(
      [2, 3, 4, 5].map((seq) => ({ subject: "svc.ingest.log_line.a.b", seq, damaged: named })),
    );
    expect(await connection.sql`select lost::int from export_position`).toEqual([{ lost: 4 }]);
  });

  it("begins behind all that is stored, if it should", async () => {
    await store.lines("a", ["old"]);
    const source = await openSource("now");
    await store.lines("a", ["new"]);
    expect(await readLines(source, 1)).toEqual(["new"]);
  });

  it("continues with the oldest message that is not committed, in order, whatever was delivered before", async () => {
    await store.lines("a", ["1", "2"]);
    const first = await openSource();
    const [chunk] = await readChunks(first, 2);
    const envelope = chunk?.queues[0]?.[1];
    if (!chunk || !envelope) throw new Error("nothing was read");
    await chunk.commit({
      ...noOutcome,
      exported: 1,
      rejectedItems: 3,
      deadLetters: [{ envelope, reason: "HTTP 400" }],
    });
    await store.lines("a", ["3"]);
    expect(await readLines(first, 1)).toEqual(["3"]);
    const second = await openSource();
    await store.lines("a", ["4"]);
    expect(await readLines(second, 2)).toEqual(["3", "4"]);
    const [stored] =
      await connection.sql`select reason, sequence::int, host_id from export_dead_letter`;
    expect(stored).toEqual({ reason: "HTTP 400", sequence: 2, host_id: "a" });
    const info = await nats.manager.consumers.info(stream, "svc-export-default");
    expect(info.num_ack_pending).toBe(2);
  });

  it("lets only the owner of the lease move the position, and ends the other's reading", async () => {
    await store.lines("a", ["1"]);
    const paused = await openSource();
    const chunk = await readChunk(paused, 1);
    const other = await openSource();
    await expect(chunk.commit(noOutcome)).rejects.toThrow(ExportLeaseLost);
    expect(await readLines(other, 1)).toEqual(["1"]);
    await expect
      .poll(() =>
        paused.read().then(
          () => "read",
          (cause: Error) => cause.message,
        ),
      )
      .toContain("not available");
  });

  it("ends when another program takes messages of its consumer, so that none is skipped", async () => {
    const source = await openSource();
    await store.lines("a", ["1"]);
    await readChunks(source, 1);
    source.close();
    const again = await openSource();
    // Its request is served before the source's next one.
    const inbox = await steal();
    for (let line = 2; line < 6; line++) await store.lines("a", [String(line)]);
    await expectEnd(again);
    inbox.unsubscribe();
  });

  it("ends when another program has taken the last message of its consumer, and none follows", async () => {
    const source = await openSource();
    let taken = 0;
    const inbox = await steal(() => void taken++);
    for (let line = 1; taken === 0; line++) await store.lines("a", [String(line)]);
    await expectEnd(source);
    inbox.unsubscribe();
  });

  it("reads a stream that was created anew from its beginning, and counts what retention deleted", async () => {
    await store.lines("a", ["1", "2", "3"]);
    const source = await openSource();
    const chunk = await readChunk(source, 3);
    await chunk.commit(noOutcome);
    source.close();
    for (const line of ["4", "5", "6"]) await store.lines("a", [line]);
    await nats.manager.streams.purge(stream, { seq: 4 });
    const behind = await openSource();
    const rest = await readChunk(behind, 1);
    await rest.commit(noOutcome);
    expect(await connection.sql`select lost::int, position::int from export_position`).toEqual([
      { lost: 2, position: 4 },
    ]);
    behind.close();
    await store.close();
    await deleteStreams();
    store = await openStreamStore(nats, database);
    await store.lines("b", ["new"]);
    expect(await readLines(await openSource(), 1)).toEqual(["new"]);
    expect(log.text()).toContain("another stream: exporting all it has");
  });

  it("reads a stream from its beginning that was restored to before its position, and has grown beyond it since", async () => {
    await store.lines("a", ["1", "2"]);
    const source = await openSource();
    await (await readChunk(source, 2)).commit(noOutcome);
    source.close();
    const continued = await openSource();
    continued.close();
    expect(log.text()).not.toContain("exporting all it has");
    // What a restore leaves: the stream's own number for other messages than the export has passed.
    await connection.sql`update export_position set position_at = position_at - interval '1 minute'`;
    await store.lines("a", ["3"]);
    await noteExportLags({ manager: nats.manager, db: connection.db, stream });
    expect(await readLines(await openSource(), 3)).toEqual(["1", "2", "3"]);
    expect(log.text()).toContain("another stream: exporting all it has");
  });

  it("keeps when the message at its position was stored, also where a core noted a newer one of a restored stream", async () => {
    await store.lines("a", ["1"]);
    const source = await openSource();
    const chunk = await readChunk(source, 1);
    await connection.sql`update export_position set position_at = now() + interval '1 minute'`;
    await chunk.commit(noOutcome);
    const [row] = await connection.sql`select position::int, position_at from export_position`;
    const message = await nats.manager.streams.getMessage(stream, { seq: row?.position });
    expect(new Date(row?.position_at)).toEqual(message?.time);
  });

  it("does not take a position of PostgreSQL for one of a stream, nor the reverse", async () => {
    await createExportPosition(connection.db, "default", "oldest");
    const of = { db: connection.db, manager: nats.manager, stream };
    await expect(prepareStreamPosition(of, "default", "oldest")).rejects.toThrow(
      PositionOfOtherSink,
    );
    await prepareStreamPosition(of, "other", "oldest");
    await expect(createExportPosition(connection.db, "other", "oldest")).rejects.toThrow(
      PositionOfOtherSink,
    );
  });

  it("is reported with its lag by every core, whether a process exports or not", async () => {
    const note = () => noteExportLags({ manager: nats.manager, db: connection.db, stream });
    const source = await openSource();
    for (const line of ["1", "2", "3"]) await store.lines("a", [line]);
    await note();
    const [lag] = await findExportLags(connection.db);
    expect(lag).toMatchObject({ name: "default", envelopes: 3, isRunning: true });
    expect(lag?.ageSeconds).toBeGreaterThan(0);
    expect(lag?.ageSeconds).toBeLessThan(60);
    for (const chunk of await readChunks(source, 3)) await chunk.commit(noOutcome);
    await note();
    expect(await findExportLags(connection.db)).toMatchObject([{ envelopes: 0, ageSeconds: 0 }]);
  });
});
