import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createLabPki, type LabPki } from "#scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "#scripts/lab/core-environment.ts";
import { type Edge, startEdge } from "#scripts/lab/edge.ts";
import { mintBridgeToken, people, seedPeople } from "#scripts/lab/people.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createHostProgram } from "../support/host-program.ts";
import { newFolder } from "../support/new-folder.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";

/* docs/backup.md with the real programs: a database restored to before hosts enrolled and renewed, and the way back for these hosts. */

const secret = "a-test-secret-of-more-than-32-bytes";
const prefix = "https://fleet.test/d/";
const header = "x-client-cert";
const wait = { timeout: 60_000 };

const dir = newFolder();
let pki: LabPki;
let edge: Edge;
let core: Program;
let ports = { httpPort: 0, ingestPort: 0 };
const databases: TestDatabase[] = [];

const startCore = async (database: TestDatabase) => {
  core = startProgram("functions/main.ts", [], {
    ...labCoreEnvironment({ databaseUrl: database.url, pki, authTokenSecret: secret, ...ports }),
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: header,
    SVC_HEARTBEAT_INTERVAL: "11s",
  });
  const ready = await logged(core, "ready");
  ports = { httpPort: Number(ready.port), ingestPort: Number(ready.ingest_port) };
};

const admin = async (path: string, body: object) => {
  const token = await mintBridgeToken(secret, { sub: people.admin.userId, now: Date.now() });
  const answer = await fetch(`http://127.0.0.1:${ports.httpPort}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as Record<string, unknown>;
};

/** Creates a policy, and writes a token of it to `dir/token`. */
const writeToken = async (name: string, more: object = {}) => {
  const policy = await admin("/v1/collector/enrollment-policies", {
    name,
    allowed_identity_prefixes: [prefix],
    ...more,
  });
  const { token } = await admin(`/v1/collector/enrollment-policies/${policy.id}/tokens`, {
    max_uses: 0,
  });
  await writeFile(join(dir, "token"), String(token), { mode: 0o600 });
};

const createHost = (deviceId: string) =>
  createHostProgram(deviceId, { dir, identityPrefix: prefix }, () => ({
    coreUrl: edge.url,
    ingestPort: ports.ingestPort,
    caBundle: pki.serverCaFile,
  }));

beforeAll(async () => {
  pki = await createLabPki({ dir: join(dir, "pki"), clock: systemClock });
});
afterAll(async () => {
  await stopProgram(core);
  await edge?.close();
  for (const database of databases) await database.drop();
});

it("Q12: hosts that enrolled or renewed after the backup say so, and lose nothing when they are enrolled again", async () => {
  const database = await createTestDatabase();
  databases.push(database);
  const seeding = database.connect();
  await seedPeople(seeding.db, Date.now());
  await seeding.close();
  await startCore(database);
  edge = await startEdge({
    certPem: await readFile(pki.edge.certFile, "utf8"),
    keyPem: await readFile(pki.edge.keyFile, "utf8"),
    clientCaPem: await readFile(pki.enrollmentCa.certFile, "utf8"),
    coreUrl: `http://127.0.0.1:${ports.httpPort}`,
    clientCertificateHeader: header,
  });
  const renewed = createHost("renewed");
  const late = createHost("late");
  await writeToken("lab");
  await renewed.enroll();
  await stopProgram(core);
  const backup = await createTestDatabase(database);
  databases.push(backup);

  await startCore(database);
  await late.enroll();
  const before = database.connect();
  const count = async () => (await findStored(before.sql)).length;
  for (const host of [renewed, late]) {
    await host.tail();
    await host.write("before the restore");
    host.start();
  }
  await expect.poll(count, wait).toBe(2);
  await renewed.renew();
  await expect.poll(renewed.hasPendingPromotion, wait).toBe(false);
  await before.close();
  await stopProgram(core);
  for (const host of [renewed, late]) await host.write("core is away 1", "core is away 2");

  await startCore(backup);
  await expect(admin("/v1/collector/enrollment-policies", { name: "held" })).rejects.toThrow(
    "access_held",
  );
  const confirm = startProgram("functions/main.ts", ["confirm-access", people.admin.email], {
    ...labCoreEnvironment({ databaseUrl: backup.url, pki, authTokenSecret: secret, ...ports }),
    USER: "root",
  });
  expect(await confirm.exited).toBe(0);
  expect(confirm.records).toEqual([
    { confirmed: [{ email: people.admin.email, scopes: expect.any(Array) }] },
  ]);
  for (const host of [renewed, late]) {
    await expect
      .poll(async () => (await host.diag()).running, wait)
      .toMatchObject({
        forwarder: {
          last_error: expect.stringMatching(
            /^certificate_unknown: .*svc-collector enroll --reenroll/,
          ),
        },
      });
    await expect.poll(async () => (await host.diag()).queue.records, wait).toBeGreaterThan(0);
    const rejected = {
      msg: "connection rejected",
      reason: "certificate_unknown",
      host_id: host.identity,
    };
    expect(core.records).toContainEqual(expect.objectContaining(rejected));
  }

  await writeToken("after the restore", { reenrollment: "replace" });
  for (const host of [renewed, late]) await host.enroll("--reenroll");
  const restored = backup.connect();
  const stored = async () => (await findStored(restored.sql)).map(({ text }) => text);
  await expect
    .poll(stored, wait)
    .toEqual(
      [late, renewed].flatMap(({ deviceId }) =>
        [1, 2].map((line) => `${deviceId} core is away ${line}`),
      ),
    );
  const gaps = await restored.sql<{ host: string; details: object }[]>`
    select details->>'host_id' as host, details from audit_event where action = 'ingest.gap' order by 1`;
  expect(gaps).toMatchObject(
    [late, renewed].map(({ identity }) => ({ host: identity, details: { from: 1, through: 1 } })),
  );
  for (const host of [renewed, late]) {
    await expect
      .poll(async () => (await host.diag()).running?.heartbeat.last_error ?? null, wait)
      .toBeNull();
    await host.stop();
  }
});
