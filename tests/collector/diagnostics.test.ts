import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parseDocument } from "yaml";
import { createDatabaseServers } from "../../functions/node/database/database-servers.ts";
import { listen } from "../../functions/store/database/listen.ts";
import { systemClock } from "../../kit/clock.ts";
import { createLabPki, type LabPki } from "../../scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "../../scripts/lab/core-environment.ts";
import { type Edge, startEdge } from "../../scripts/lab/edge.ts";
import { mintBridgeToken, people, seedPeople } from "../../scripts/lab/people.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";

/* A host on one core, and an admin on another, with the real programs: what only the database carries from one to the other. */
const secret = "a-test-secret-of-more-than-32-bytes";
const identity = "https://fleet.test/d/host-1";

let dir: string;
let database: TestDatabase;
let pki: LabPki;
let edge: Edge | undefined;
/** The first has the admin, the second the host. */
let cores: Program[] = [];
let adminPort: number;
let collector: Program | undefined;
let hostId: string;

const ask = async (method: "GET" | "POST", path: string, body: object = {}): Promise<Response> => {
  const token = await mintBridgeToken(secret, { sub: people.admin.userId, now: Date.now() });
  return fetch(`http://127.0.0.1:${adminPort}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(method === "GET" ? {} : { body: JSON.stringify(body) }),
  });
};
const post = async (path: string, body: object = {}): Promise<Record<string, unknown>> => {
  const answer = await ask("POST", path, body);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

/** Requests the diagnostics, and returns the bundle once it has arrived. */
const fetchDiagnostics = async (): Promise<string> => {
  const path = `/v1/collector/hosts/${hostId}/diags`;
  // A core whose sessions have just ended answers 503 for a moment.
  const { id } = await eventually(() => post(path));
  return eventually(async () => {
    const answer = await ask("GET", `${path}/${id}/bundle`);
    expect(answer.status).toBe(200);
    return answer.text();
  });
};

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "diagnostics-"));
  pki = await createLabPki({ dir: join(dir, "pki"), clock: systemClock });
  database = await createTestDatabase();
  await seedPeople(database.connect().db, Date.now());
  const env = {
    ...labCoreEnvironment({ databaseUrl: database.url, pki, authTokenSecret: secret }),
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: "x-client-cert",
    SVC_HEARTBEAT_INTERVAL: "12s",
  };
  cores = [0, 1].map(() => startProgram("functions/main.ts", [], env));
  const ready = await Promise.all(cores.map((core) => logged(core, "ready")));
  adminPort = Number(ready[0]?.port);
  const ingestPort = Number(ready[1]?.ingest_port);
  edge = await startEdge({
    certPem: await readFile(pki.edge.certFile, "utf8"),
    keyPem: await readFile(pki.edge.keyFile, "utf8"),
    clientCaPem: await readFile(pki.enrollmentCa.certFile, "utf8"),
    coreUrl: `http://127.0.0.1:${ready[1]?.port}`,
    clientCertificateHeader: "x-client-cert",
  });
  const policy = { name: "lab", allowed_identity_prefixes: ["https://fleet.test/d/"] };
  const { id } = await post("/v1/collector/enrollment-policies", policy);
  const { token } = await post(`/v1/collector/enrollment-policies/${id}/tokens`);
  await writeFile(join(dir, "token"), String(token), { mode: 0o600 });
  const enroll = startProgram("collector/main.ts", [
    "enroll",
    "--core",
    edge.url,
    "--ingest",
    `localhost:${ingestPort}`,
    "--token-file",
    join(dir, "token"),
    "--device-id",
    "host-1",
    "--identity-prefix",
    "https://fleet.test/d/",
    "--ca-bundle",
    pki.serverCaFile,
    "--config-dir",
    join(dir, "host"),
    ...(process.geteuid?.() === 0 ? ["--allow-root-acknowledged", "I-UNDERSTAND-ROOT-MODE"] : []),
  ]);
  expect(await enroll.exited, enroll.stderr).toBe(0);
  // The OTLP source of a new config listens on a fixed port, which another test's collector may have.
  const config = join(dir, "host", "collector.yaml");
  const document = parseDocument(await readFile(config, "utf8"));
  document.set("sources", document.createNode([{ type: "file", include: [join(dir, "app.log")] }]));
  await writeFile(config, document.toString());
  collector = startProgram("collector/main.ts", ["run", "--config", config]);
  const { sql } = database.connect();
  const reported = () => sql<{ id: string }[]>`select identity_id as id from collector_health`;
  hostId = await eventually(async () => {
    const [host] = await reported();
    if (host === undefined) throw new Error(collector?.stderr);
    return host.id;
  });
});
afterAll(async () => {
  if (collector) await stopProgram(collector);
  await Promise.all(cores.map((core) => stopProgram(core)));
  await edge?.close();
  await database.drop();
  await rm(dir, { recursive: true, force: true });
});

it("come from a host on another core before its next heartbeat, without key, token and paths", async () => {
  const { sql } = database.connect();
  const lastHeartbeat = () => sql`select last_heartbeat_at as at from fleet_status`;
  // Once more if a heartbeat came meanwhile.
  const bundle = await eventually(async () => {
    const before = await lastHeartbeat();
    const fetched = await fetchDiagnostics();
    expect(await lastHeartbeat()).toEqual(before);
    return fetched;
  });
  expect(JSON.parse(bundle)).toMatchObject({ validation: { ok: true }, running: { identity } });
  const key = await readFile(join(dir, "host", "identity", "current", "tls.key"), "utf8");
  for (const hidden of [key.split("\n")[1] ?? key, "PRIVATE KEY", "svcbt_", "tls.key", dir])
    expect(bundle).not.toContain(hidden);
});

it("come with the next heartbeat while no notification arrives", async () => {
  const { sql } = database.connect();
  const notified: string[] = [];
  const at = { url: database.url, servers: createDatabaseServers(database.url) };
  const notifications = listen(at, {
    svc_directive: (payload) => payload === undefined || notified.push(payload),
  });
  await notifications.listening;
  // From now on sessions of cores find a function first that notifies nobody.
  const [{ name = "" } = {}] = await sql<{ name: string }[]>`select current_database() as name`;
  await sql`create function public.pg_notify(text, text) returns void language sql as ''`;
  await sql.unsafe(`alter database ${name} set search_path = public, pg_catalog`);
  await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`;
  const bundle = await fetchDiagnostics();
  expect(JSON.parse(bundle)).toMatchObject({ running: { identity } });
  expect(notified).toEqual([]);
  notifications.close();
});
