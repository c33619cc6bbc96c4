import { X509Certificate } from "node:crypto";
import { appendFile, copyFile, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "node:tls";
import { afterAll, expect, it } from "vitest";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  randomSerial,
  serverExtensions,
  testNames,
} from "#scripts/lab/ca/test-pki.ts";
import { createTestLab } from "../support/deployment/lab.ts";
import { eventually } from "../support/eventually.ts";
import { findStored } from "../support/stored-envelopes.ts";
import type { HostProgram } from "./support/host-program.ts";

/* docs/rotate.md with the real programs, while two collectors forward lines. The tests build on each other, in order. */

const { dir, pki, sql, ...lab } = await createTestLab();
/** Signs the next server certificates; collectors trust it from the start. */
const serverCa = await createTestCa({ name: "Second server CA" });
await appendFile(pki.serverCaFile, serverCa.pem);
const clientCaFile = join(dir, "client-ca.crt");
await copyFile(pki.enrollmentCa.certFile, clientCaFile);
const {
  ingestPort,
  program: core,
  ...started
} = await lab.startCore({
  SVC_INGEST_CLIENT_CA_FILE: clientCaFile,
  SVC_HEARTBEAT_INTERVAL: "11s",
});
const edge = await lab.startEdge(started);
await lab.writeToken(started);
const renewing = lab.createHost("renewing", edge, { ingestPort });
const waiting = lab.createHost("waiting", edge, { ingestPort });
const written = { renewing: 0, waiting: 0 };

/** Replaces a file as an operator does, by a rename. */
const replace = async (path: string, text: string) => {
  await writeFile(`${path}.new`, text, { mode: 0o600 });
  await rename(`${path}.new`, path);
};

/** How often core has reloaded these files. */
const reloads = (files: string) =>
  core.records.filter(
    (record) => record.msg === "files have changed and are in use" && record.files === files,
  ).length;
/** Replaces files and awaits the reload of each of `names`, after a SIGHUP if `atOnce`. */
const reload = async (names: readonly string[], change: () => Promise<void>, atOnce = true) => {
  const before = names.map(reloads);
  await change();
  if (atOnce) core.child.kill("SIGHUP");
  for (const [at, name] of names.entries())
    await expect.poll(() => reloads(name)).toBe((before[at] ?? 0) + 1);
};

const replaceServerCertificate = async () => {
  const key = await createTestKey();
  const extensions = [
    testNames([{ type: "dns", value: "localhost" }], false),
    ...serverExtensions(),
  ];
  const now = Date.now();
  const validity = { notBefore: new Date(now - 60_000), notAfter: new Date(now + 86_400_000) };
  const names = { subject: "CN=localhost", serialNumber: randomSerial() };
  const der = await issueTestCertificate({ ca: serverCa, key, extensions, ...names, ...validity });
  const certificate = encodePem(der, "CERTIFICATE");
  await replace(pki.ingest.certFile, certificate);
  await replace(pki.ingest.keyFile, key.pem);
  return new X509Certificate(certificate).fingerprint256;
};

/** The fingerprint of the certificate that a new connection to the ingest listener sees. */
const servedFingerprint = async () => {
  const ca = await readFile(pki.serverCaFile, "utf8");
  return new Promise((resolve, reject) => {
    const socket = connect(
      { host: "127.0.0.1", port: ingestPort, servername: "localhost", ca },
      () => {
        resolve(socket.getPeerCertificate().fingerprint256);
        socket.destroy();
      },
    );
    socket.on("error", reject);
  });
};

/** Streams that core ended or rejected, as either collector logs them. */
const interruptions = () =>
  [renewing, waiting].flatMap((host) =>
    (host.program()?.records ?? []).filter(({ msg }) => msg === "forwarding interrupted"),
  );

const storedLines = async (host: HostProgram) =>
  (await findStored(sql)).filter(({ hostId }) => hostId === host.identity).map(({ text }) => text);
/** Waits until core has stored what was written so far, each line once and in order. */
const untilStored = async (host: HostProgram) => {
  const expected = Array.from(
    { length: written[host.deviceId as keyof typeof written] },
    (_, line) => `${line}`,
  );
  const read = async () => (await storedLines(host)).slice(0, expected.length);
  await eventually(async () =>
    expect(await read()).toEqual(expected.map((line) => `${host.deviceId} ${line}`)),
  );
};
const issuerOf = async (host: HostProgram) =>
  new X509Certificate(await readFile(join(host.configDir, "identity", "current", "tls.crt")))
    .issuer;
const lastHeartbeat = async (host: HostProgram) => {
  const [row] = await sql`
    select (extract(epoch from last_heartbeat_at) * 1000)::float8 as at from fleet_status where identity = ${host.identity}`;
  return row?.at ?? 0;
};

for (const host of [renewing, waiting]) {
  await host.enroll();
  await host.tail();
  await host.edit(["management", "core_url"], `https://localhost:${ingestPort}`);
  host.start();
}
const writer = setInterval(() => {
  void renewing.write(`${written.renewing++}`);
  void waiting.write(`${written.waiting++}`);
}, 50);
afterAll(async () => {
  clearInterval(writer);
  for (const host of [renewing, waiting]) await host.stop();
});
await untilStored(renewing);
await untilStored(waiting);

it("core serves a replaced ingest certificate to new connections within seconds, and ends no open stream", async () => {
  const before = await servedFingerprint();
  let replaced = "";
  const change = async () => {
    replaced = await replaceServerCertificate();
  };
  await reload(["ingest TLS"], change, false);
  expect(replaced).not.toBe(before);
  expect(await servedFingerprint()).toBe(replaced);
  await reload(["ingest TLS"], change);
  expect(await servedFingerprint()).toBe(replaced);
  for (const host of [renewing, waiting]) await untilStored(host);
  expect(interruptions()).toEqual([]);
});

it("core keeps the old ingest certificate while certificate and key do not match", async () => {
  const served = await servedFingerprint();
  const old = await readFile(pki.ingest.keyFile, "utf8");
  await replace(pki.ingest.keyFile, (await createTestKey()).pem);
  core.child.kill("SIGHUP");
  await expect
    .poll(() => core.records)
    .toContainEqual(
      expect.objectContaining({
        msg: "files have changed and cannot be used; the old ones are kept",
        files: "ingest TLS",
      }),
    );
  expect(await servedFingerprint()).toBe(served);
  await reload(["ingest TLS"], () => replace(pki.ingest.keyFile, old));
});

it("a new enrollment CA signs renewals, while collectors with certificates of the old one work on", async () => {
  const oldCa = await readFile(pki.enrollmentCa.certFile, "utf8");
  const newCa = await createTestCa({
    name: "Second enrollment CA",
    pathLength: 0,
    serialNumber: randomSerial(),
  });
  await reload(["ingest TLS", "enrollment CA"], async () => {
    await replace(clientCaFile, oldCa + newCa.pem);
    await replace(pki.enrollmentCa.certFile, oldCa + newCa.pem);
  });
  await reload(["enrollment CA"], () => replace(pki.enrollmentCa.keyFile, newCa.key.pem));

  expect(await issuerOf(renewing)).toBe("CN=Lab enrollment CA");
  await renewing.renew();
  expect(await issuerOf(renewing)).toBe("CN=Second enrollment CA");
  await expect.poll(renewing.hasPendingPromotion).toBe(false);
  const since = Date.now();
  for (const host of [renewing, waiting]) {
    await untilStored(host);
    await expect.poll(() => lastHeartbeat(host)).toBeGreaterThan(since);
  }
  await waiting.stop();
  waiting.start();
  await untilStored(waiting);
  expect(await issuerOf(waiting)).toBe("CN=Lab enrollment CA");
  expect(interruptions()).toEqual([]);

  await reload(["enrollment CA", "ingest TLS"], async () => {
    await replace(pki.enrollmentCa.certFile, newCa.pem);
    await replace(clientCaFile, newCa.pem);
  });
  await renewing.stop();
  renewing.start();
  await untilStored(renewing);
  await expect.poll(() => lastHeartbeat(renewing)).toBeGreaterThan(since);
  await waiting.stop();
  waiting.start();
  const lastError = async () => (await waiting.diag()).running?.forwarder.last_error;
  await eventually(async () =>
    expect(await lastError()).toMatch(/^certificate_unknown: .*svc-collector enroll --reenroll/),
  );
  expect((await waiting.diag()).queue.records).toBeGreaterThan(0);
});
