import { getPriority } from "node:os";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { startTcpProxy } from "../fakes/tcp-proxy.ts";
import { type TestDatabase, useTestDatabase } from "../support/database.ts";
import { createExports, texts, within } from "../support/deployment/exported-program.ts";
import type { OtlpBackend } from "../support/ingest/otlp-backend.ts";
import { logged, stopProgram } from "../support/program.ts";
import { type EnvelopeStore, openEnvelopeStore } from "../support/stored-envelopes.ts";

/* `svc-server export` as a process: what is committed reaches the backend, whatever is killed. */

let database: TestDatabase;
let store: EnvelopeStore;
let backend: OtlpBackend;
beforeEach(async () => {
  database = await useTestDatabase();
  store = await openEnvelopeStore(database);
  backend = await startBackend();
});
afterEach(() => store.close());
/** Registered last, it ends the programs before their database goes. */
const { startBackend, startExport, handOver } = createExports(() => ({
  SVC_DATABASE_URL: database.url,
}));

it.each(["http/protobuf", "grpc"])(
  "exports stored and new lines over %s, and stops on SIGTERM",
  async (protocol) => {
    await store.lines("spiffe://fleet.test/host/web-1", texts("a", 0, 3));
    const program = startExport({
      SVC_EXPORT_PROTOCOL: protocol,
      SVC_EXPORT_ENDPOINT: protocol === "grpc" ? backend.grpcUrl : backend.httpUrl,
    });
    await expect.poll(() => backend.lines(), within).toEqual(texts("a", 0, 3));
    expect(getPriority(program.child.pid ?? 0)).toBeGreaterThanOrEqual(10);
    await store.lines("spiffe://fleet.test/host/web-1", texts("a", 3, 2));
    await expect.poll(() => backend.lines(), within).toEqual(texts("a", 0, 5));
    expect(await stopProgram(program)).toBe(0);
  },
);

it("loses nothing, keeps each queue's order and hands over when it is killed amid failures", async () => {
  let calls = 0;
  backend.answer = ({ body }) => {
    if (Buffer.from(body).includes("reject me")) return { http: 400 };
    return ++calls % 5 === 0 ? { http: 503 } : "accept";
  };
  await store.lines("rejected", ["reject me"]);
  await handOver(store, ["h0", "h1", "h2", "h3", "h4"]);
  const letters = startExport({}, "dead-letters");
  expect(await letters.exited).toBe(0);
  const payload = Buffer.from("reject me").toString("base64");
  expect(letters.records).toMatchObject([{ host_id: "rejected", payload }]);
  backend.answer = () => "accept";
  const retry = startExport({}, "retry-dead-letters");
  expect(await retry.exited).toBe(0);
  expect(retry.records).toEqual([
    { accepted: 1, rejected: 0, rejected_items: 0, skipped: 0, failure: null },
  ]);
  expect(backend.lines()).toContain("reject me");
});

it("D8: waits for its database at the start, and continues after its lease was lost while the backend failed", async () => {
  const { hostname, port, pathname } = new URL(database.url);
  const proxy = await startTcpProxy("/nowhere");
  onTestFinished(() => proxy.close());
  backend.answer = () => ({ http: 503 });
  await store.lines("a", ["1"]);
  const program = startExport({
    SVC_DATABASE_URL: `postgres://postgres@127.0.0.1:${proxy.port}${pathname}`,
  });
  await logged(program, "the database is not available yet");
  proxy.target(`${decodeURIComponent(hostname)}/.s.PGSQL.${port}`);
  const { sql } = database.connect();
  const lastError = () => sql`select last_error from export_position`;
  await expect.poll(lastError, within).toEqual([{ last_error: "HTTP 503" }]);
  await sql`update export_position set owner = null, epoch = epoch + 1`;
  await logged(program, "lease lost");
  backend.answer = () => "accept";
  await expect.poll(() => backend.lines(), within).toEqual(["1"]);
  expect(await stopProgram(program)).toBe(0);
});

it("K4: ends with 78 and the command that resolves it where the position is one of another server", async () => {
  const first = startExport();
  await logged(first, "exporting");
  expect(await stopProgram(first)).toBe(0);
  const { sql } = database.connect();
  await sql`update export_position set system_identifier = '7'`;
  const refused = startExport();
  expect(await refused.exited).toBe(78);
  expect(refused.stderr).toContain("run svc-server export adopt-database");
  const adopting = startExport({}, "adopt-database");
  expect(await adopting.exited).toBe(0);
  expect(adopting.records).toEqual([{ renumbered_envelopes: 0, adopted: ["default"] }]);
  const adopted = startExport();
  await logged(adopted, "exporting");
  expect(await stopProgram(adopted)).toBe(0);
  await sql`update export_position set stream = 'SVC_INGEST 1'`;
  const streamed = startExport();
  expect(await streamed.exited).toBe(78);
  expect(streamed.stderr).toContain("SVC_EXPORT_NAME: default has a position in JetStream");
});

it("ends with 78 and the name of each faulty setting", async () => {
  const program = startExport({
    SVC_EXPORT_ENDPOINT: "http://otel.example.com:4318",
    SVC_EXPORT_HEADERS: "authorization=secret-token",
    SVC_EXPORT_CLIENT_CERT_FILE: "/nowhere/cert.pem",
    SVC_EXPORT_PROTOCOL: "http/json",
  });
  expect(await program.exited).toBe(78);
  expect(program.stderr).toContain("SVC_EXPORT_PROTOCOL: must be grpc or http/protobuf");
  expect(program.stderr).toContain(
    "SVC_EXPORT_ENDPOINT: must be https while SVC_EXPORT_HEADERS is set",
  );
  expect(program.stderr).toContain("SVC_EXPORT_CLIENT_KEY_FILE: is required");
  expect(program.stderr).not.toContain("secret-token");
});
