import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { startTcpProxy } from "../fakes/tcp-proxy.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { traceRequest } from "../support/otlp.ts";
import { type OtlpBackend, startOtlpBackend } from "../support/otlp-backend.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";
import { type EnvelopeStore, openEnvelopeStore } from "../support/stored-envelopes.ts";

/* `svc-server export` as a process: what is committed reaches the backend, whatever is killed. */

let database: TestDatabase;
let store: EnvelopeStore;
let backend: OtlpBackend;
const programs: Program[] = [];
beforeEach(async () => {
  database = await createTestDatabase();
  store = await openEnvelopeStore(database);
  backend = await startOtlpBackend();
});
afterEach(async () => {
  for (const program of programs.splice(0)) {
    program.child.kill("SIGKILL");
    await program.exited;
  }
  await backend.close();
  await store.close();
  await database.drop();
});

const startExport = (env: Record<string, string> = {}): Program => {
  const program = startProgram("functions/main.ts", ["export"], {
    SVC_DATABASE_URL: database.url,
    SVC_EXPORT_ENDPOINT: backend.httpUrl,
    ...env,
  });
  programs.push(program);
  return program;
};
const texts = (host: string, from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `${host} ${from + index}`);
const within = { timeout: 60_000, interval: 20 };

it.each(["http/protobuf", "grpc"])(
  "exports stored and new lines over %s, and stops on SIGTERM",
  async (protocol) => {
    await store.lines("spiffe://fleet.test/host/web-1", texts("a", 0, 3));
    const program = startExport({
      SVC_EXPORT_PROTOCOL: protocol,
      SVC_EXPORT_ENDPOINT: protocol === "grpc" ? backend.grpcUrl : backend.httpUrl,
    });
    await expect.poll(() => backend.lines(), within).toEqual(texts("a", 0, 3));
    await store.lines("spiffe://fleet.test/host/web-1", texts("a", 3, 2));
    await expect.poll(() => backend.lines(), within).toEqual(texts("a", 0, 5));
    expect(await stopProgram(program)).toBe(0);
  },
);

it("loses nothing and keeps each queue's order when it is killed amid failures", async () => {
  const hosts = Array.from({ length: 5 }, (_, index) => `h${index}`);
  const rounds = 2;
  let calls = 0;
  backend.answer = () => (++calls % 5 === 0 ? { http: 503 } : "accept");
  for (let round = 0; round < rounds; round++) {
    const isLast = round === rounds - 1;
    const before = backend.accepted.length;
    const program = startExport({ SVC_EXPORT_REQUEST_BYTES: "1024" });
    for (const host of hosts)
      for (let part = 0; part < 5; part++)
        await store.lines(host, texts(host, round * 50 + part * 10, 10));
    if (isLast) break;
    await expect.poll(() => backend.accepted.length, within).toBeGreaterThan(before + 3);
    program.child.kill("SIGKILL");
    await program.exited;
  }
  const wanted = hosts.flatMap((host) => texts(host, 0, rounds * 50));
  await expect.poll(() => [...new Set(backend.lines())].sort(), within).toEqual(wanted.toSorted());
  // At least once, and without what repeats in the order of the queue.
  for (const host of hosts) {
    const first = [...new Set(backend.lines().filter((line) => line.startsWith(`${host} `)))];
    expect(first).toEqual(texts(host, 0, rounds * 50));
  }
});

it("hands over within seconds when the process that exports is killed", async () => {
  const one = startExport();
  await logged(one, "exporting");
  const two = startExport();
  await logged(two, "another process exports; waiting to take over");
  await store.lines("a", ["1"]);
  await expect.poll(() => backend.lines(), within).toEqual(["1"]);
  one.child.kill("SIGKILL");
  await store.lines("a", ["2"]);
  const killedAt = performance.now();
  await expect.poll(() => backend.lines().includes("2"), within).toBe(true);
  expect(performance.now() - killedAt).toBeLessThan(30_000);
  expect(two.records.some(({ msg }) => msg === "exporting")).toBe(true);
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

it("stops nobody else's export for the host whose envelopes are rejected, and names it", async () => {
  const hosts = ["bad", "a", "b", "c"].map((name) => `spiffe://fleet.test/host/${name}`);
  const [bad = "", ...good] = hosts;
  const program = startExport({ SVC_EXPORT_MAX_HOST_DEAD_LETTERS: "3" });
  const cut = { kind: "otel_span", payload: traceRequest(["x"]) };
  backend.answer = ({ signal }) => (signal === "traces" ? { http: 400 } : "accept");
  await store.envelopes(
    bad,
    Array.from({ length: 8 }, () => cut),
  );
  for (const host of good) await store.lines(host, [host]);
  await expect.poll(() => backend.lines().toSorted(), within).toEqual(good.toSorted());
  const { sql } = database.connect();
  const lost = () => sql`
    select host_id, envelopes::int, (select count(*)::int from export_dead_letter) as letters from export_host_loss`;
  await expect.poll(lost, within).toEqual([{ host_id: bad, envelopes: 5, letters: 3 }]);
  // What comes afterwards is exported, too.
  await store.lines("a", ["later"]);
  await expect.poll(() => backend.lines().includes("later"), within).toBe(true);
  const [named] = program.records.filter(({ msg }) => String(msg).includes("they are lost"));
  expect(named).toMatchObject({ host_id: bad, envelopes: 5, reason: "HTTP 400" });
  expect(await stopProgram(program)).toBe(0);
});

it("K8: keeps everything while a page answers in place of the backend, and names what a backend rejects in part", async () => {
  const page = {
    headers: { "content-type": "text/html" },
    body: new TextEncoder().encode("<h1>Sign in</h1>"),
  };
  let isPage = true;
  // `partial_success` with one rejected record and "too old".
  const partial = {
    body: Uint8Array.of(10, 11, 8, 1, 18, 7, ...new TextEncoder().encode("too old")),
  };
  backend.answer = ({ body }) =>
    isPage ? page : Buffer.from(body).includes("old line") ? partial : "accept";
  const host = "spiffe://fleet.test/host/web-1";
  await store.lines(host, ["1", "2"]);
  const program = startExport();
  const { sql } = database.connect();
  const position = () => sql`select exported::int, last_error from export_position`;
  await expect
    .poll(position, within)
    .toEqual([{ exported: 0, last_error: "HTTP 200 with text/html that is no response of OTLP" }]);
  isPage = false;
  await expect.poll(() => backend.lines(), within).toEqual(["1", "2"]);
  await store.lines(host, ["old line"]);
  await expect
    .poll(() => sql`select host_id, reason from export_dead_letter`, within)
    .toEqual([{ host_id: host, reason: "1 of its items were rejected: too old" }]);
  const [named] = program.records.filter(
    ({ msg }) => msg === "the backend accepted a request but for some items",
  );
  expect(named).toMatchObject({ host_ids: [host], rejected_items: 1, message: "too old" });
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
  const adopting = startProgram("functions/main.ts", ["export", "adopt-database"], {
    SVC_DATABASE_URL: database.url,
    SVC_EXPORT_ENDPOINT: backend.httpUrl,
  });
  expect(await adopting.exited).toBe(0);
  expect(adopting.records).toEqual([{ renumbered_envelopes: 0, adopted: ["default"] }]);
  await logged(startExport(), "exporting");
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
