import "reflect-metadata";
import { X509Certificate } from "node:crypto";
import { expect, it } from "vitest";
import { decodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestCsr,
  createTestKey,
  type TestCa,
  type TestKeyKind,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { createNodeCryptography, createNodeSigningKey } from "../node/node-cryptography.ts";
import { readAuthorities } from "./authority.ts";
import { createClientCertificateReader } from "./certificate.ts";
import { checkCsr } from "./csr.ts";
import { createLocalCa } from "./local-ca.ts";
import { createWebCryptography, createWebSigningKey } from "./web-cryptography.ts";

const cryptography = createNodeCryptography();
const identity = "https://fleet.test/d/web-1";
const now = Date.UTC(2026, 10, 20, 12, 0, 0, 500);
const serial = Uint8Array.fromHex("ff0102030405060708090a0b0c0d0e0f");

const localCa = async (ca: TestCa, pem = ca.pem) =>
  createLocalCa({
    authorities: readAuthorities(pem),
    key: createNodeSigningKey(ca.key.pem),
    cryptography,
  });

const request = async (kind: TestKeyKind = "p256", ttlSeconds = 86_400) => {
  const csrPem = await createTestCsr({ key: await createTestKey(kind), uri: identity });
  const checked = await checkCsr(csrPem, cryptography);
  if (!checked.ok) throw new Error(checked.fault);
  return { csrPem, spki: checked.csr.spki, identity, ttlSeconds, serial, now };
};

it.each(["p256", "p384", "ed25519", "rsa2048"] as const)(
  "issues the profile with a %s key, on both runtimes",
  async (kind) => {
    const ca = await createTestCa({ kind });
    const issuer = new X509Certificate(ca.pem);
    const web = await createLocalCa({
      authorities: readAuthorities(ca.pem),
      key: await createWebSigningKey(ca.key.pem),
      cryptography: createWebCryptography(),
    });
    for (const signer of [await localCa(ca), web]) {
      for (const keyKind of ["p256", "p384", "ed25519"] as const) {
        const asked = await request(keyKind);
        const issued = await signer.sign(asked);
        const certificate = new X509Certificate(issued.certificatePem);
        expect(certificate.verify(issuer.publicKey)).toBe(true);
        expect(certificate.checkIssued(issuer)).toBe(true);
        expect(
          certificate.publicKey.export({ format: "der", type: "spki" }).equals(asked.spki),
        ).toBe(true);
        expect(certificate.subject).toBeUndefined();
        expect(certificate.subjectAltName).toBe(`URI:${identity}`);
        expect(certificate.ca).toBe(false);
        expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
        expect(certificate.serialNumber.toLowerCase()).toBe(issued.serialNumber);
        expect(certificate.fingerprint256.replaceAll(":", "").toLowerCase()).toBe(
          issued.fingerprintSha256,
        );
        expect(certificate.validFromDate.getTime()).toBe(issued.notBefore);
        expect(certificate.validToDate.getTime()).toBe(issued.notAfter);
        expect(issued.notBefore).toBe(now - 500 - 60_000);
        expect(issued.notAfter).toBe(now - 500 + 86_400_000);
      }
    }
  },
);

it("marks the name, key usage and constraints critical and links the keys", async () => {
  const ca = await createTestCa();
  const issued = await (await localCa(ca)).sign(await request());
  const certificate = new x509.X509Certificate(issued.certificatePem);
  const critical = Object.fromEntries(
    certificate.extensions.map(({ type, critical }) => [type, critical]),
  );
  expect(critical).toEqual({
    "2.5.29.17": true,
    "2.5.29.15": true,
    "2.5.29.19": true,
    "2.5.29.37": false,
    "2.5.29.35": false,
    "2.5.29.14": false,
  });
  expect(certificate.getExtension(x509.KeyUsagesExtension)?.usages).toBe(
    x509.KeyUsageFlags.digitalSignature,
  );
  const authorityKey = certificate.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId;
  expect(authorityKey).toBe(ca.certificate.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId);
});

it("encodes a serial as its number: without leading zeros, and positive with a high bit", async () => {
  const signer = await localCa(await createTestCa());
  for (const [hex, expected] of [
    ["ff000000000000000000000000000001", "ff000000000000000000000000000001"],
    ["00000000000000000000000000000001", "01"],
    ["0080000000000000000000000000000a", "80000000000000000000000000000a"],
  ] as const) {
    const issued = await signer.sign({ ...(await request()), serial: Uint8Array.fromHex(hex) });
    expect(issued.serialNumber).toBe(expected);
    expect(new X509Certificate(issued.certificatePem).serialNumber.toLowerCase()).toBe(expected);
  }
});

it("C2: ends no certificate after the CA, and issues none in its last 300 s", async () => {
  const ends = (seconds: number) =>
    createTestCa({ notAfter: new Date(Math.floor(now / 1000) * 1000 + seconds * 1000) });
  const clamped = await (await localCa(await ends(3600))).sign(await request());
  expect(clamped.notAfter).toBe(now - 500 + 3_600_000);
  const ending = await localCa(await ends(300));
  expect(ending.faultAt(now)).toMatch(/expires/);
  await expect(ending.sign(await request())).rejects.toThrow("expires in less than 300 seconds");
  expect((await localCa(await ends(301))).faultAt(now)).toBeUndefined();
});

it("C2: rejects a key that matches no certificate", async () => {
  const ca = await createTestCa();
  await expect(localCa({ ...ca, key: await createTestKey() })).rejects.toThrow(
    "the CA key matches no certificate",
  );
});

it("C2: rejects authorities that may not sign certificates", async () => {
  const leaf = await createTestCa({
    extensions: [new x509.BasicConstraintsExtension(false, undefined, true)],
  });
  expect(() => readAuthorities(leaf.pem)).toThrow("not a certification authority");
  const noSign = await createTestCa({
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.cRLSign, true),
    ],
  });
  expect(() => readAuthorities(noSign.pem)).toThrow("keyCertSign");
  expect(() => readAuthorities("")).toThrow("no certificate");
  expect(() => readAuthorities(leaf.key.pem)).toThrow("no certificate");
});

it("signs with the certificate that matches the key, in any order of the file, and returns the chain without the root", async () => {
  const root = await createTestCa({ name: "Root" });
  const intermediate = await createTestCa({ name: "Intermediate", issuer: root, kind: "p384" });
  const issuing = await createTestCa({ name: "Issuing", issuer: intermediate });
  const other = await createTestCa({ name: "Other" });
  const signer = await localCa(
    issuing,
    `${other.pem}# a comment\n${root.pem}${issuing.pem}${intermediate.pem}`,
  );
  const issued = await signer.sign(await request());
  expect(
    new X509Certificate(issued.certificatePem).checkIssued(new X509Certificate(issuing.pem)),
  ).toBe(true);
  expect(issued.chainPem).toBe(`${issuing.pem}${intermediate.pem}`);
  const alone = await localCa(root);
  expect((await alone.sign(await request())).chainPem).toBe(root.pem);
});

it("issues certificates that the reader of client certificates accepts", async () => {
  const ca = await createTestCa();
  const issued = await (await localCa(ca)).sign(await request("p384"));
  const reader = createClientCertificateReader({
    authorities: readAuthorities(ca.pem),
    cryptography,
  });
  const der = decodePem(issued.certificatePem, "CERTIFICATE") ?? new Uint8Array();
  expect(await reader.read(der)).toMatchObject({
    ok: true,
    certificate: {
      identity,
      fingerprintSha256: issued.fingerprintSha256,
      serialNumber: issued.serialNumber,
      proofAlgorithm: "ecdsa-sha384",
      notBefore: issued.notBefore,
      notAfter: issued.notAfter,
    },
  });
});
