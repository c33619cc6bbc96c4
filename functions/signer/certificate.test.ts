import { beforeAll, expect, it } from "vitest";
import {
  clientExtensions,
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestKey,
  testNames,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { isWithinValidity } from "../domain/certificate/authenticate.ts";
import { createNodeCryptography } from "../node/node-cryptography.ts";
import { readAuthorities } from "./authority.ts";
import { type ClientCertificateReader, createClientCertificateReader } from "./certificate.ts";
import type { Cryptography, SignatureCheck } from "./cryptography.ts";

const cryptography = createNodeCryptography();

let ca: TestCa;
let key: TestKey;
let reader: ClientCertificateReader;

beforeAll(async () => {
  ca = await createTestCa();
  key = await createTestKey();
  reader = createClientCertificateReader({ authorities: readAuthorities(ca.pem), cryptography });
});

const fault = async (der: Uint8Array, by = reader) => {
  const result = await by.read(der);
  return result.ok ? "accepted" : result.fault;
};

it("rejects a certificate that no authority of the bundle signed, also under the name of one", async () => {
  const impostor = await createTestCa();
  expect(await fault(await issueTestCertificate({ ca, key }))).toBe("accepted");
  expect(await fault(await issueTestCertificate({ ca: impostor, key }))).toBe("untrusted");
  const renamed = await createTestCa({ key: ca.key, name: "Another name for the same key" });
  const strict = createClientCertificateReader({
    authorities: readAuthorities(renamed.pem),
    cryptography,
  });
  expect(await fault(await issueTestCertificate({ ca, key }), strict)).toBe("untrusted");
  const both = createClientCertificateReader({
    authorities: readAuthorities(impostor.pem + ca.pem),
    cryptography,
  });
  expect(await fault(await issueTestCertificate({ ca, key }), both)).toBe("accepted");
});

it("rejects a tampered certificate", async () => {
  const der = await issueTestCertificate({ ca, key });
  const at = Buffer.from(der).indexOf("fleet.test");
  der[at] = 0x67;
  expect(await fault(der)).toBe("untrusted");
  expect(await fault(der.subarray(1))).toBe("malformed");
  expect(await fault(new Uint8Array())).toBe("malformed");
});

it("rejects server-auth only, no usage, a CA, a key usage without signatures, and unknown critical extensions", async () => {
  const name = testNames([{ type: "url", value: "https://fleet.test/d/1" }]);
  const serverAuth = new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]);
  const clientAuth = new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]);
  for (const extensions of [
    [name, serverAuth],
    [name],
    [name, clientAuth, new x509.BasicConstraintsExtension(true, undefined, true)],
    [name, clientAuth, new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyEncipherment, true)],
    [name, ...clientExtensions(), new x509.Extension("1.2.3.4", true, Uint8Array.of(5, 0))],
  ]) {
    expect(await fault(await issueTestCertificate({ ca, key, extensions }))).toBe(
      "usage_not_allowed",
    );
  }
  const optional = [
    name,
    ...clientExtensions(),
    new x509.Extension("1.2.3.4", false, Uint8Array.of(5, 0)),
  ];
  expect(await fault(await issueTestCertificate({ ca, key, extensions: optional }))).toBe(
    "accepted",
  );
  // CA FALSE spelled out, which DER forbids and some authorities write.
  const spelledOut = new x509.Extension("2.5.29.19", true, Uint8Array.fromHex("3003010100"));
  const extensions = [name, spelledOut, ...clientExtensions().slice(1)];
  expect(await fault(await issueTestCertificate({ ca, key, extensions }))).toBe("accepted");
});

it("G6: returns why a certificate has no identity", async () => {
  const der = await issueTestCertificate({ ca, key, names: [], subject: "CN=web-1" });
  expect(await reader.read(der)).toEqual({
    ok: false,
    fault: "identity_invalid",
    identityFault: "no_name",
  });
});

it("rejects an RSA client key", async () => {
  expect(await fault(await issueTestCertificate({ ca, key: await createTestKey("rsa2048") }))).toBe(
    "key_not_allowed",
  );
});

it("limits a certificate's validity to its issuer's, both ends included", async () => {
  const notAfter = new Date("2026-11-20T12:00:00Z");
  const short = await createTestCa({ key: ca.key, notAfter });
  const limited = createClientCertificateReader({
    authorities: readAuthorities(short.pem),
    cryptography,
  });
  const result = await limited.read(await issueTestCertificate({ ca, key }));
  if (!result.ok) throw new Error(result.fault);
  const { certificate } = result;
  expect(certificate.notAfter).toBe(notAfter.getTime());
  expect(isWithinValidity(certificate, notAfter.getTime() + 999)).toBe(true);
  expect(isWithinValidity(certificate, notAfter.getTime() + 1000)).toBe(false);
  expect(isWithinValidity(certificate, certificate.notBefore)).toBe(true);
  expect(isWithinValidity(certificate, certificate.notBefore - 1)).toBe(false);
});

it("verifies a certificate once, and evicts those used longest ago from its cache", async () => {
  const checks: SignatureCheck[] = [];
  const counting: Cryptography = {
    ...cryptography,
    verify: (check) => {
      checks.push(check);
      return cryptography.verify(check);
    },
  };
  const authorities = readAuthorities(ca.pem);
  const small = createClientCertificateReader({
    authorities,
    cryptography: counting,
    entriesMax: 1,
  });
  const first = await issueTestCertificate({ ca, key });
  const second = await issueTestCertificate({ ca, key, uri: "x://y" });
  // Each connection has bytes of its own.
  await small.read(first.slice());
  await small.read(first.slice());
  expect(checks).toHaveLength(1);
  await small.read(second);
  await small.read(first);
  expect(checks).toHaveLength(3);
  // The bytes of an open connection are read once, whatever else was evicted.
  await small.read(second);
  expect(checks).toHaveLength(3);
});
