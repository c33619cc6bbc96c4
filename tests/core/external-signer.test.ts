import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { and, eq } from "drizzle-orm";
import { expect, it } from "vitest";
import { auditEvent } from "#drizzle/schema/audit.ts";
import { certificate } from "#drizzle/schema/enrollment.ts";
import { signerLoader } from "#functions/node/follow-files.ts";
import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { createClientCertificateReader } from "#functions/signer/certificate.ts";
import { createTestCa, createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestLog } from "../fakes/log.ts";
import { collectorOf, createTestToken, manage } from "../support/collector.ts";
import { useTestCore } from "../support/core.ts";
import { newFolder } from "../support/new-folder.ts";

const dir = newFolder();
const file = (name: string) => join(dir, name);
const ca = await createTestCa({ notAfter: new Date("2050-01-01") });
writeFileSync(file("ca.pem"), ca.pem);
writeFileSync(file("ca.key"), ca.key.pem, { mode: 0o600 });

/** Writes a signer as an operator might: openssl, and node to read the request. */
const write = (signing: string) => {
  const text = `#!/bin/sh
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/request.json"
field() { ${process.execPath} -p "JSON.parse(require('fs').readFileSync('$work/request.json'))$1"; }
field .csr_pem > "$work/csr.pem"
uri=$(field .profile.identity_uri)
printf '%s\\n' "subjectAltName=critical,URI:$uri" extendedKeyUsage=clientAuth basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature > "$work/profile"
${signing}
${process.execPath} -p "JSON.stringify({certificate_pem: require('fs').readFileSync('$work/crt.pem', 'utf8')})"
`;
  writeFileSync(file("sign"), text);
  chmodSync(file("sign"), 0o755);
};
const openssl = (days: number) =>
  `openssl x509 -req -in "$work/csr.pem" -CA ${file("ca.pem")} -CAkey ${file("ca.key")} -days ${days} -extfile "$work/profile" -out "$work/crt.pem"`;
write(openssl(1));

const log = createTestLog();
const cryptography = createNodeCryptography();
const config = {
  kind: "external-command",
  command: file("sign"),
  caCertFile: file("ca.pem"),
} as const;
const needs = { cryptography, log, clock: { now: () => Date.now() }, path: process.env.PATH ?? "" };
const { signer, authorities } = await (await signerLoader(config, needs))();
const clientCertificates = createClientCertificateReader({ authorities, cryptography });
const test = await useTestCore({ core: { signer, clientCertificates } });
const { clock } = test;
// The signer uses the machine's clock, so core must, too.
clock.set(Date.now());

/** Returns the one failure of an action. */
const failureOf = async (action: string) => {
  const failed = and(eq(auditEvent.action, action), eq(auditEvent.outcome, "failure"));
  const events = await test.db.select().from(auditEvent).where(failed);
  expect(events).toHaveLength(1);
  return events[0];
};

it("enrolls, heartbeats and renews with certificates that openssl verifies", async () => {
  const { enroll } = await createTestToken(test, { certificate_ttl_seconds: 172_800 });
  const host = await enroll("web-1");
  clock.set(Date.now());
  const beat = { ...heartbeatBody(clock.now()) };
  expect((await manage(test, host, "heartbeat", beat)).status).toBe(200);
  const key = await createTestKey();
  const csr_pem = await createTestCsr({ key, uri: host.identity });
  const sent_at = new Date(clock.now()).toISOString();
  const renewed = await manage(test, host, "renew", { sent_at, csr_pem, collector_version: "1" });
  expect(renewed.status).toBe(200);
  const pem = String(renewed.body.certificate_pem);
  expect(new X509Certificate(pem).subjectAltName).toBe(`URI:${host.identity}`);
  writeFileSync(file("issued.pem"), pem);
  const args = ["verify", "-purpose", "sslclient", "-CAfile", file("ca.pem"), file("issued.pem")];
  expect(execFileSync("openssl", args, { encoding: "utf8" })).toContain(": OK");
  clock.set(Date.now());
  const successor = collectorOf(key, renewed.body);
  expect((await manage(test, successor, "heartbeat", heartbeatBody(clock.now()))).status).toBe(200);
});

it("S2: answers 502 to a certificate that does not match, and reports the reason in log and audit alone", async () => {
  const { enroll } = await createTestToken(test, { certificate_ttl_seconds: 172_800 });
  const host = await enroll("web-2");
  const before = (await test.db.select().from(certificate)).length;
  write(openssl(3));
  clock.set(Date.now());
  const uri = host.identity;
  const renewal = {
    csr_pem: await createTestCsr({ key: await createTestKey(), uri }),
    collector_version: "1",
  };
  const sent_at = new Date(clock.now()).toISOString();
  const refused = await manage(test, host, "renew", { sent_at, ...renewal });
  expect(refused).toMatchObject({
    status: 502,
    body: { code: "signer_failed", action: "retry" },
  });
  expect(JSON.stringify(refused.body)).not.toContain("outlives");
  expect(await failureOf("certificate.renew")).toMatchObject({
    reason: "signer_failed",
    targetId: host.certificateId,
    details: {
      identity_id: host.identityId,
      signer_fault: "the certificate outlives the policy",
    },
  });
  await expect(enroll("web-3")).rejects.toThrow("signer_failed");
  expect(await failureOf("collector.enroll")).toMatchObject({
    reason: "signer_failed",
    details: { signer_fault: "the certificate outlives the policy" },
  });
  expect((await test.db.select().from(certificate)).length).toBe(before);
  expect(test.log.text()).toContain("outlives the policy");
  write(openssl(1));
  await enroll("web-3");
});
