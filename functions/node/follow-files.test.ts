import { X509Certificate } from "node:crypto";
import { chmodSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { decodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
} from "#scripts/lab/ca/test-pki.ts";
import { createTestLog, type TestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import type { IngestConfig } from "../config/core-config.ts";
import { filesCheck } from "../ops/checks.ts";
import { followFiles } from "./follow-files.ts";
import { createNodeCryptography } from "./node-cryptography.ts";
import { checkEach } from "./reload-files.ts";

const dir = newFolder();
const cryptography = createNodeCryptography();
const now = Date.UTC(2026, 5, 1);
const at = (name: string) => join(dir, name);
const local = { kind: "local-ca", caCertFile: at("ca.pem"), caKeyFile: at("ca.key") } as const;

/** As a careful program replaces a file: in one step, another inode. */
const put = (name: string, contents: string) => {
  writeFileSync(at("new"), contents);
  chmodSync(at("new"), 0o600);
  renameSync(at("new"), at(name));
};

let log: TestLog;
let ca: TestCa;
let next: TestCa;
beforeEach(async () => {
  log = createTestLog();
  ca = await createTestCa();
  next = await createTestCa();
  put("ca.pem", ca.pem);
  put("ca.key", ca.key.pem);
});

const follow = async (ingest: IngestConfig | null = null) => {
  const clock = { now: () => now };
  const followed = await followFiles(
    { signer: local, ingest, managementCaBundleFile: null },
    { cryptography, log, clock },
  );
  return { ...followed, check: () => checkEach(followed.all) };
};

it("keeps the old CA while only its certificate is replaced, reports why, and uses the new one once its key is there", async () => {
  const { signing, check } = await follow();
  if (signing === null) throw new Error("no signer");
  const spki = (await createTestKey()).spki;
  const request = { csrPem: "", spki, identity: "https://fleet.test/d/1", ttlSeconds: 600, now };
  const issuer = async () => {
    const { certificatePem } = await signing.signer.sign({
      ...request,
      serial: new Uint8Array(16).fill(1),
    });
    const certificate = new X509Certificate(certificatePem);
    return [ca, next].findIndex(({ pem }) =>
      certificate.verify(new X509Certificate(pem).publicKey),
    );
  };
  const reads = async (from: TestCa) => {
    const der = await issueTestCertificate({ ca: from, key: await createTestKey() });
    return (await signing.clientCertificates.read(der)).ok;
  };
  const ready = filesCheck("files", signing.files);
  expect([await issuer(), await reads(ca), await reads(next)]).toEqual([0, true, false]);
  put("ca.pem", next.pem);
  await check();
  await check();
  expect([await issuer(), await reads(ca), await reads(next)]).toEqual([0, true, false]);
  expect(await ready.find()).toMatchObject({
    status: "warning",
    detail: expect.stringContaining("matches no certificate"),
  });
  expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
  put("ca.key", next.key.pem);
  await check();
  expect([await issuer(), await reads(ca), await reads(next)]).toEqual([1, false, true]);
  expect(await ready.find()).toEqual({ status: "ready", detail: "The newest is in use." });
  expect(log.text()).not.toContain("PRIVATE KEY");
});

it("C1: rejects a key that was opened to the group, and reloads nothing while nothing changes", async () => {
  const { signing, check } = await follow();
  chmodSync(at("ca.key"), 0o640);
  await check();
  expect(signing?.files.fault()).toContain(
    "SVC_ENROLLMENT_CA_KEY_FILE: the key file is open to group or world",
  );
  chmodSync(at("ca.key"), 0o600);
  await check();
  expect(signing?.files.fault()).toBeUndefined();
  const lines = log.lines.length;
  await check();
  expect(log.lines).toHaveLength(lines);
  rmSync(at("ca.pem"));
  await check();
  expect(signing?.files.fault()).toBe("SVC_ENROLLMENT_CA_CERT_FILE: cannot be read (ENOENT)");
  expect(signing?.authorities().map(({ der }) => der)).toEqual([decodePem(ca.pem, "CERTIFICATE")]);
});

it("K6: uses a new CA after its files could not even be looked at for a while", async () => {
  const { signing, check } = await follow();
  rmSync(at("ca.pem"));
  symlinkSync(at("ca.pem"), at("ca.pem"));
  await check();
  expect(signing?.files.fault()).toBe("SVC_ENROLLMENT_CA_CERT_FILE: cannot be read (ELOOP)");
  put("ca.pem", next.pem);
  put("ca.key", next.key.pem);
  await check();
  expect(signing?.files.fault()).toBeUndefined();
  expect(signing?.authorities().map(({ der }) => der)).toEqual([
    decodePem(next.pem, "CERTIFICATE"),
  ]);
});

it("rejects a CA that the ingest listener would not trust, until the listener's bundle holds it", async () => {
  const server = await createTestCa();
  put("tls.crt", server.pem);
  put("tls.key", server.key.pem);
  put("clients.pem", ca.pem);
  const files = {
    serverCertFile: at("tls.crt"),
    serverKeyFile: at("tls.key"),
    clientCaFile: at("clients.pem"),
  };
  const { signing, tls, check } = await follow(files as IngestConfig);
  const seen: string[] = [];
  tls?.subscribe(({ ca: bundle }) => seen.push(bundle.toString()));
  put("ca.pem", next.pem);
  put("ca.key", next.key.pem);
  await check();
  expect(signing?.files.fault()).toContain("SVC_INGEST_CLIENT_CA_FILE: trusts no certificate");
  put("clients.pem", ca.pem + next.pem);
  await check();
  expect([signing?.files.fault(), tls?.fault()]).toEqual([undefined, undefined]);
  expect(seen).toEqual([ca.pem + next.pem]);
  put("clients.pem", ca.pem);
  await check();
  expect(tls?.fault()).toContain("SVC_INGEST_CLIENT_CA_FILE: trusts no certificate");
  expect(seen).toHaveLength(1);
});
