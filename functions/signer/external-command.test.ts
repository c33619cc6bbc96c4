import { beforeAll, expect, it } from "vitest";
import { encodePem } from "#proto/pem.ts";
import {
  clientExtensions,
  createTestCa,
  createTestCsr,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestKey,
  testNames,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { createNodeCryptography } from "../node/node-cryptography.ts";
import { readAuthorities } from "./authority.ts";
import { createExternalCommand, readSignerAnswer } from "./external-command.ts";
import type { SigningRequest } from "./signer.ts";

const cryptography = createNodeCryptography();
const now = Date.UTC(2026, 5, 1, 12);
const identity = "https://fleet.test/d/web-1";
const ttlSeconds = 86_400;

let root: TestCa;
let ca: TestCa;
let key: TestKey;
let request: SigningRequest;
beforeAll(async () => {
  root = await createTestCa({ name: "Root" });
  ca = await createTestCa({ name: "Issuing", issuer: root });
  key = await createTestKey();
  const csrPem = await createTestCsr({ key, uri: identity });
  request = { csrPem, spki: key.spki, identity, ttlSeconds, serial: new Uint8Array(16), now };
});

/** A signer whose program answers with `answer`, received at `receivedAt`. */
const signerOf = (
  answer: (asked: string) => string | Promise<string>,
  { bundle = ca.pem + root.pem, receivedAt = now }: { bundle?: string; receivedAt?: number } = {},
) =>
  createExternalCommand({
    command: {
      run: async (asked) => new TextEncoder().encode(await answer(asked)),
      fault: () => undefined,
    },
    authorities: readAuthorities(bundle),
    cryptography,
    clock: { now: () => receivedAt },
  });

const pemOf = async (over: Partial<Parameters<typeof issueTestCertificate>[0]> = {}) => {
  const dates = { notBefore: new Date(now - 60_000), notAfter: new Date(now + ttlSeconds * 1000) };
  return encodePem(
    await issueTestCertificate({ ca, key, uri: identity, ...dates, ...over }),
    "CERTIFICATE",
  );
};
const answerOf = (certificatePem: string) => JSON.stringify({ certificate_pem: certificatePem });
const outcome = async (pem: string, options?: Parameters<typeof signerOf>[1]) => {
  try {
    await signerOf(() => answerOf(pem), options).sign(request);
    return "issued";
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
};

it("receives the request and the profile, and core returns its certificate with the chain", async () => {
  let asked: unknown;
  const signer = signerOf(async (text) => {
    asked = JSON.parse(text);
    return `\n${answerOf(await pemOf())}\n`;
  });
  const issued = await signer.sign(request);
  expect(asked).toEqual({
    version: 1,
    csr_pem: request.csrPem,
    profile: {
      identity_uri: identity,
      ttl_seconds: ttlSeconds,
      not_after: "2026-06-02T12:00:00.000Z",
      extended_key_usage: ["client_auth"],
    },
  });
  expect(issued).toMatchObject({
    chainPem: ca.pem,
    serialNumber: "1a2b3c",
    notBefore: now - 60_000,
    notAfter: now + ttlSeconds * 1000,
  });
  expect(issued.certificatePem).toContain("BEGIN CERTIFICATE");
});

it("S1: accepts exactly one object with one field: no repeated key, no second field, no byte before or after", () => {
  const read = (text: string | Uint8Array) => {
    try {
      return readSignerAnswer(typeof text === "string" ? new TextEncoder().encode(text) : text);
    } catch {
      return "rejected";
    }
  };
  expect(read(' {"certificate_pem" : "a\\nb\\u0041\\"\\\\"}\r\n')).toBe('a\nbA"\\');
  for (const text of [
    "",
    "null",
    '"a"',
    "{}",
    '{"certificate_pem":null}',
    '{"certificate_pem":["a"]}',
    '{"certificate_pem":"a","certificate_pem":"b"}',
    '{"certificate_pem":"a","certificate\\u005fpem":"b"}',
    '{"certificate_pem":"a","chain_pem":"b"}',
    '[{"certificate_pem":"a"}]',
    '{"certificate_pem":"a"}{"certificate_pem":"a"}',
    '{"certificate_pem":"a"}x',
    'x{"certificate_pem":"a"}',
    '\ufeff{"certificate_pem":"a"}',
    '{"certificate_pem":"a"}\0',
    '{"certificate_pem":"a\nb"}',
    '{"certificate_pem":"\\x41"}',
    '{"certificate_pem":"a",}',
    "{'certificate_pem':'a'}",
    "[".repeat(65_536),
    `{"certificate_pem":[${"{},".repeat(20_000)}{}]}`,
    Uint8Array.of(0x7b, 0xff, 0x7d),
    new TextEncoder().encode('{"certificate_pem":"\ud800"}').fill(0xff, 20, 21),
  ]) {
    expect({ text, read: read(text) }).toEqual({ text, read: "rejected" });
  }
  expect(read(`{"certificate_pem":"${"\\n".repeat(32_000)}"}`)).toHaveLength(32_000);
  expect(read(`{"certificate_pem":"${"\\".repeat(65_001)}`)).toBe("rejected");
});

it("S2: rejects another key, a CA, an extra or other name, a longer lifetime, a second PEM, and a foreign issuer", async () => {
  const uri = testNames([{ type: "url", value: identity }]);
  const named = (...names: Parameters<typeof testNames>[0]) => pemOf({ names });
  const good = await pemOf();
  expect(await outcome(good)).toBe("issued");
  expect(await outcome(await pemOf({ key: await createTestKey() }))).toContain("another key");
  const authority = [
    uri,
    new x509.BasicConstraintsExtension(true, undefined, true),
    ...clientExtensions().slice(1),
  ];
  expect(await outcome(await pemOf({ extensions: authority }))).toContain("is a CA");
  expect(
    await outcome(await pemOf({ extensions: [uri, ...clientExtensions().slice(0, 2)] })),
  ).toContain("client authentication");
  const server = new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]);
  expect(await outcome(await pemOf({ extensions: [uri, server] }))).toContain(
    "client authentication",
  );
  const { clientAuth, serverAuth, codeSigning } = x509.ExtendedKeyUsage;
  for (const more of [serverAuth, codeSigning, "2.5.29.37.0"]) {
    const usages = new x509.ExtendedKeyUsageExtension([clientAuth, more]);
    expect(await outcome(await pemOf({ extensions: [uri, usages] }))).toContain(
      "more than client authentication",
    );
  }
  for (const pem of [
    await named({ type: "url", value: identity }, { type: "dns", value: "b.test" }),
    await named({ type: "url", value: `${identity}0` }),
    await named({ type: "dns", value: "web-1.fleet.test" }),
    await pemOf({ names: [], subject: "CN=web-1" }),
  ]) {
    expect(await outcome(pem)).toContain("names are not exactly the requested URI");
  }
  expect(
    await outcome(await pemOf({ notAfter: new Date(now + ttlSeconds * 1000 + 1000) })),
  ).toContain("outlives");
  expect(await outcome(await pemOf({ notBefore: new Date(now + 1000) }))).toContain(
    "not valid now",
  );
  expect(await outcome(await pemOf({ notAfter: new Date(now - 1000) }))).toContain("not valid now");
  expect(await outcome(good + good)).toContain("exactly one PEM");
  expect(await outcome(`${good}junk`)).toContain("exactly one PEM");
  expect(await outcome(good + ca.pem)).toContain("exactly one PEM");
  expect(await outcome(encodePem(new Uint8Array(3), "CERTIFICATE"))).toContain("malformed");
  const impostor = await createTestCa({
    name: "Issuing",
    issuer: await createTestCa({ name: "Root" }),
  });
  expect(await outcome(await pemOf({ ca: impostor }))).toContain("does not chain");
  expect(await outcome(good, { bundle: root.pem })).toContain("does not chain");
});

it("measures the lifetime from the arrival of the certificate, so that a slow signer's is not too long", async () => {
  const late = await pemOf({ notAfter: new Date(now + 20_000 + ttlSeconds * 1000) });
  expect(await outcome(late, { receivedAt: now + 20_000 })).toBe("issued");
  expect(await outcome(late, { receivedAt: now + 19_999 })).toContain("outlives");
});

it("C2: a bundle that ends sooner shortens the requested and recorded lifetime, and issues nothing in its last 300 s", async () => {
  const short = await createTestCa({ name: "Short", notAfter: new Date(now + 3600_000) });
  let asked = { profile: { ttl_seconds: 0, not_after: "" } };
  const signer = signerOf(
    async (text) => {
      asked = JSON.parse(text);
      return answerOf(await pemOf({ ca: short, notAfter: new Date(now + 3600_000) }));
    },
    { bundle: short.pem },
  );
  expect((await signer.sign(request)).notAfter).toBe(now + 3600_000);
  expect(asked.profile).toMatchObject({
    ttl_seconds: 3600,
    not_after: "2026-06-01T13:00:00.000Z",
  });
  expect(signer.faultAt(now)).toBeUndefined();
  const late = now + 3600_000 - 299_999;
  await expect(signer.sign({ ...request, now: late })).rejects.toThrow(
    "bundle expires in less than 300 seconds",
  );
  expect(signer.faultAt(late)).toContain("expires in less than 300 seconds");
  const expired = await createTestCa({ name: "Expired", notAfter: new Date(now - 1000) });
  expect(await outcome(await pemOf({ ca: expired }), { bundle: expired.pem + ca.pem })).toContain(
    "does not chain",
  );
});
