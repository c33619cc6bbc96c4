import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { type TestDatabase, useTestDatabase } from "../support/database.ts";
import { createExports, texts, within } from "../support/deployment/exported-program.ts";
import { streamSettings } from "../support/ingest/nats-sink.ts";
import type { OtlpBackend } from "../support/ingest/otlp-backend.ts";
import { stopProgram } from "../support/program.ts";
import { type EnvelopeStore, openStreamStore } from "../support/stored-envelopes.ts";

const withNats = it.runIf(await canStartNats());

/* `svc-server export` as a process that reads JetStream: what the stream has reaches the backend, whatever is killed. */

let nats: RunningNats;
let database: TestDatabase;
let store: EnvelopeStore;
let backend: OtlpBackend;
beforeAll(async () => {
  nats = await startNats();
});
beforeEach(async () => {
  database = await useTestDatabase();
  store = await openStreamStore(nats, database);
  backend = await startBackend();
});
afterEach(async () => {
  await store.close();
  const { stream } = streamSettings;
  for (const name of [stream, `${stream}_QUEUES`]) await nats.manager.streams.delete(name);
});
afterAll(() => nats.stop());

const { startBackend, startExport, handOver } = createExports(() => ({
  SVC_DATABASE_URL: database.url,
  SVC_INGEST_SINK: "nats",
  SVC_NATS_URLS: nats.addresses.map((address) => `nats://${address}`).join(),
}));

withNats(
  "exports what a stream has, and what is stored while the backend and a server of NATS are down",
  async () => {
    await store.lines("a", texts("a", 0, 3));
    const program = startExport({
      SVC_EXPORT_PROTOCOL: "grpc",
      SVC_EXPORT_ENDPOINT: backend.grpcUrl,
    });
    await expect.poll(() => backend.lines(), within).toEqual(texts("a", 0, 3));
    backend.answer = () => ({ http: 503 });
    const before = backend.calls.length;
    await store.lines("a", texts("a", 3, 2));
    await expect.poll(() => backend.calls.length, within).toBeGreaterThan(before);
    const [node] = nats.nodes;
    await node?.kill();
    await node?.start();
    backend.answer = () => "accept";
    await expect
      .poll(() => store.lines("a", texts("a", 5, 2)).then(() => "stored", String), within)
      .toBe("stored");
    await expect.poll(() => [...new Set(backend.lines())], within).toEqual(texts("a", 0, 7));
    expect(await stopProgram(program)).toBe(0);
  },
);

withNats(
  "loses nothing, keeps each queue's order and hands over when it is killed amid failures",
  async () => {
    let calls = 0;
    backend.answer = ({ body }) => {
      if (Buffer.from(body).includes("reject me")) return { http: 400 };
      return ++calls % 9 === 0 ? { http: 503 } : "accept";
    };
    await store.lines("h0", ["reject me"]);
    await handOver(store, ["h0", "h1", "h2"]);
    const letters = startExport({}, "dead-letters");
    expect(await letters.exited).toBe(0);
    expect(letters.records).toMatchObject([
      { host_id: "h0", payload: Buffer.from("reject me").toString("base64") },
    ]);
    backend.answer = () => "accept";
    const retry = startExport({}, "retry-dead-letters");
    expect(await retry.exited).toBe(0);
    expect(retry.records).toEqual([
      { accepted: 1, rejected: 0, rejected_items: 0, skipped: 0, failure: null },
    ]);
    expect(backend.lines()).toContain("reject me");
  },
);
