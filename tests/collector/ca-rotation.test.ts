import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { encodePem } from "#proto/pem.ts";
import type { SystemTrust } from "#proto/system/trust.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  randomSerial,
  serverExtensions,
  type TestCa,
  testNames,
} from "#scripts/lab/ca/test-pki.ts";
import { clientCertificateHeader } from "#scripts/lab/core-process.ts";
import { startEdge } from "#scripts/lab/edge.ts";
import { createTestLab } from "../support/deployment/lab.ts";
import { eventually } from "../support/eventually.ts";
import { whenDone } from "../support/new-folder.ts";
import { findStored } from "../support/stored-envelopes.ts";
import type { HostProgram } from "./support/host-program.ts";

/* docs/rotate.md with the real programs: the roots of both channels are renewed from core, while collectors forward lines. */

const { dir, pki, sql, ...lab } = await createTestLab();
const rootOf = (name: string) => createTestCa({ name, serialNumber: randomSerial() });
const roots = {
  ingest: { old: await rootOf("Old ingest root"), new: await rootOf("New ingest root") },
  management: {
    old: await rootOf("Old management root"),
    new: await rootOf("New management root"),
  },
};
type Age = "old" | "new";
const bundleFile = (channel: CaChannel) => join(dir, `${channel}-bundle.pem`);
const rootFile = (channel: CaChannel, age: Age) => join(dir, `${channel}-${age}.pem`);

/** Replaces a file as an operator does, by a rename. */
const replace = async (path: string, text: string) => {
  await writeFile(`${path}.new`, text, { mode: 0o600 });
  await rename(`${path}.new`, path);
};
const publish = async (...ages: Age[]) => {
  for (const channel of ["ingest", "management"] as const)
    await replace(bundleFile(channel), ages.map((age) => roots[channel][age].pem).join(""));
};
const issueServer = async (ca: TestCa) => {
  const key = await createTestKey();
  const now = Date.now();
  const der = await issueTestCertificate({
    ca,
    key,
    extensions: [testNames([{ type: "dns", value: "localhost" }], false), ...serverExtensions()],
    subject: "CN=localhost",
    serialNumber: randomSerial(),
    notBefore: new Date(now - 60_000),
    notAfter: new Date(now + 86_400_000),
  });
  return { certPem: encodePem(der, "CERTIFICATE"), keyPem: key.pem };
};
const presentAtIngest = async (age: Age) => {
  const { certPem, keyPem } = await issueServer(roots.ingest[age]);
  await replace(pki.ingest.certFile, certPem);
  await replace(pki.ingest.keyFile, keyPem);
};

await presentAtIngest("old");
await publish("old");
for (const channel of ["ingest", "management"] as const)
  for (const age of ["old", "new"] as const)
    await replace(rootFile(channel, age), roots[channel][age].pem);
const core = await lab.startCore({
  SVC_INGEST_CA_BUNDLE_FILE: bundleFile("ingest"),
  SVC_MANAGEMENT_CA_BUNDLE_FILE: bundleFile("management"),
  SVC_HEARTBEAT_INTERVAL: "10s",
});
const startManagement = async (age: Age, port = 0) =>
  startEdge({
    ...(await issueServer(roots.management[age])),
    clientCaPem: await readFile(pki.enrollmentCa.certFile, "utf8"),
    clientCertificateHeader,
    coreUrl: core.url,
    port,
  });
let edge = await startManagement("old");
whenDone(() => edge.close());
await lab.writeToken(core, { reenrollment: "replace" });

const hosts = ["first", "second", "away"].map((name) => lab.createHost(name, edge, core));
const [first, second, away] = hosts as [HostProgram, HostProgram, HostProgram];
const written = new Map(hosts.map((host) => [host, 0]));
const flags = (age: Age) => [
  "--ca-bundle",
  rootFile("management", age),
  "--ingest-ca-bundle",
  rootFile("ingest", age),
];
const writer = setInterval(() => {
  for (const host of hosts) {
    const line = written.get(host) ?? 0;
    host.write(`${line}`);
    written.set(host, line + 1);
  }
}, 50);
afterAll(async () => {
  clearInterval(writer);
  for (const host of hosts) await host.stop();
});

const storedOf = async (host: HostProgram) =>
  (await findStored(sql)).filter(({ hostId }) => hostId === host.identity);
/** Waits until core has stored what was written so far, each line once and in order. */
const untilStored = async (host: HostProgram) => {
  const count = written.get(host) ?? 0;
  const expected = Array.from({ length: count }, (_, line) => `${host.deviceId} ${line}`);
  await eventually(async () => {
    const found = (await storedOf(host)).map(({ text }) => text);
    expect(found.slice(0, count)).toEqual(expected);
  });
};
const trustOf = async (host: HostProgram) => (await host.diag()).trust;
/** Waits until hosts have the bundles of this number alone. */
const untilSettled = async (number: number, ...some: HostProgram[]) => {
  for (const host of some)
    await eventually(async () =>
      expect(await trustOf(host)).toMatchObject({
        ingest: { bundle: number, settled: true },
        management: { bundle: number, settled: true },
      }),
    );
};
const trust = () => core.api<SystemTrust>("auditor", "GET", "/v1/system/trust");

it("renews the roots of ingest and management under load, with no host touched and no line lost or doubled", async () => {
  for (const host of hosts) {
    await host.enroll(...flags("old"));
    await host.tail();
    host.start();
  }
  await untilSettled(1, ...hosts);
  for (const host of hosts) await untilStored(host);
  await away.stop();

  await publish("old", "new");
  await untilSettled(2, first, second);
  await presentAtIngest("new");
  await edge.close();
  edge = await startManagement("new", Number(new URL(edge.url).port));
  await expect
    .poll(() => core.program.records)
    .toContainEqual(
      expect.objectContaining({ msg: "files have changed and are in use", files: "ingest TLS" }),
    );
  await publish("new");
  await untilSettled(3, first, second);
  for (const host of [first, second]) {
    await untilStored(host);
    expect(await trustOf(host)).toMatchObject({
      ingest: { authorities: [{ name: "CN=New ingest root" }] },
      management: { authorities: [{ name: "CN=New management root" }] },
    });
    const errors = host.program()?.records.map(({ error }) => error);
    expect(errors?.filter((error) => /certificate/.test(`${error}`))).toEqual([]);
  }
});

it("names a host that was away meanwhile, which enrolls again with the new roots and loses nothing", async () => {
  for (const { bundle, hosts, lacking } of (await trust()).channels) {
    expect([bundle?.number, hosts.newest]).toEqual([3, 2]);
    expect(lacking).toMatchObject([{ identity: away.identity, number: 1 }]);
  }
  away.start();
  const lastError = async () => (await away.diag()).running?.forwarder.last_error;
  await eventually(async () => expect(await lastError()).toMatch(/certificate/));
  await away.stop();
  await away.enroll("--reenroll", ...flags("new"));
  away.start();
  await untilSettled(3, away);
  await untilStored(away);
  await expect
    .poll(async () => (await trust()).channels.map(({ hosts }) => hosts.newest))
    .toEqual([3, 3]);
});
