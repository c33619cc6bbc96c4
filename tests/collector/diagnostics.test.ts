import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createLabPki, type LabPki } from "#scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "#scripts/lab/core-environment.ts";
import { type Edge, startEdge } from "#scripts/lab/edge.ts";
import { mintBridgeToken, people, seedPeople } from "#scripts/lab/people.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { createHostProgram, type HostProgram } from "../support/host-program.ts";
import { newFolder } from "../support/new-folder.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";

/* A host on one core, and an admin on another, with the real programs: what only the database carries from one to the other. */
const secret = "a-test-secret-of-more-than-32-bytes";
const identity = "https://fleet.test/d/host-1";

const dir = newFolder();
let database: TestDatabase;
let pki: LabPki;
let edge: Edge | undefined;
/** The first has the admin, the second the host. */
let cores: Program[] = [];
let adminPort: number;
let host: HostProgram | undefined;
let hostId: string;

const ask = async (method: "GET" | "POST", path: string, body: object = {}) => {
  const token = await mintBridgeToken(secret, { sub: people.admin.userId, now: Date.now() });
  return fetch(`http://127.0.0.1:${adminPort}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(method === "GET" ? {} : { body: JSON.stringify(body) }),
  });
};
const post = async (path: string, body: object = {}) => {
  const answer = await ask("POST", path, body);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

/** Requests the diagnostics, and returns the bundle once it has arrived. */
const fetchDiagnostics = async () => {
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
  host = createHostProgram("host-1", { dir, identityPrefix: "https://fleet.test/d/" }, () => ({
    coreUrl: edge?.url ?? "",
    ingestPort,
    caBundle: pki.serverCaFile,
  }));
  await host.enroll();
  // The OTLP source of a new config listens on a fixed port, which another test's collector may have.
  await host.tail();
  host.start();
  const { sql } = database.connect();
  const reported = () => sql`select identity_id as id from collector_health`;
  hostId = await eventually(async () => {
    const [found] = await reported();
    if (found === undefined) throw new Error(host?.program()?.stderr);
    return found.id;
  });
});
afterAll(async () => {
  await host?.stop();
  await Promise.all(cores.map((core) => stopProgram(core)));
  await edge?.close();
  await database.drop();
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
  const key = await readFile(join(host?.configDir ?? "", "identity", "current", "tls.key"), "utf8");
  for (const hidden of [key.split("\n")[1] ?? key, "PRIVATE KEY", "svcbt_", "tls.key", dir])
    expect(bundle).not.toContain(hidden);
});
