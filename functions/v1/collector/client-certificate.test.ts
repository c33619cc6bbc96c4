import { expect, it } from "vitest";
import { encodePem } from "#proto/pem.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, type TestCollector, withProof } from "#tests/support/collector.ts";
import { type Call, useTestCore } from "#tests/support/core.ts";

const name = "X-Client-Cert";
const test = await useTestCore({ env: { SVC_ENROLLMENT_CLIENT_CERT_HEADER: name } });
const unset = await useTestCore();
const { enroll } = await createTestToken(test);
const host = await enroll("behind-a-proxy");
const pem = encodePem(host.certificate, "CERTIFICATE");
const escaped = encodeURIComponent(pem);

let sent = 0;
const beat = async (
  call: Call,
  { by = host, to = test }: { by?: TestCollector; to?: typeof test } = {},
) => {
  await to.clock.advance(15_000);
  const body = withProof(by, "heartbeat", heartbeatBody(to.clock.now() + ++sent));
  const answer = await to.api("POST", "/v1/collector/heartbeat", { body, ...call });
  return answer.status === 200 ? "taken" : `${answer.status} ${answer.body.code}`;
};
const headers = (value: string) => ({ headers: { [name]: value } });
const invalid = "400 client_certificate_header_invalid";
const required = "401 client_certificate_required";

it("accepts the URL-escaped PEM, also with unescaped base64 characters", {
  tags: "workerd",
}, async () => {
  expect(await beat(headers(escaped))).toBe("taken");
  const lightly = pem.replaceAll(" ", "%20").replaceAll("\n", "%0A");
  expect(lightly).toMatch(/[+/]/);
  expect(await beat(headers(lightly))).toBe("taken");
});

it("P1: ignores the header unless it is configured, whatever its value", async () => {
  for (const value of [escaped, "junk", ""])
    expect(await beat(headers(value), { to: unset })).toBe(required);
});

it("P2: rejects a victim's public certificate without its key", { tags: "workerd" }, async () => {
  const thief: TestCollector = { ...host, key: await createTestKey() };
  expect(await beat(headers(escaped), { by: thief })).toBe("401 proof_invalid");
});

it("P3: rejects two copies of the header and ignores similar names", async () => {
  const twice = new Headers();
  twice.append(name, escaped);
  twice.append(name, escaped);
  expect(await beat(headers(twice.get(name) ?? ""))).toBe(invalid);
  for (const other of ["x_client_cert", "X-Client-Certificate"])
    expect(await beat({ headers: { [other]: escaped } })).toBe(required);
});

it("P5: rejects two PEMs, trailing junk in PEM and DER, double encoding, raw PEM, and more than 16 KiB", async () => {
  const der = encodePem(new Uint8Array([...host.certificate, 0]), "CERTIFICATE");
  for (const value of [
    escaped + escaped,
    `${escaped}junk`,
    `junk${escaped}`,
    encodeURIComponent(der),
    encodeURIComponent(escaped),
    escaped.replace("%0A", "%"),
    escaped.replace("%0A", "%zz"),
    escaped.replaceAll("CERTIFICATE", "PRIVATE%20KEY"),
    "junk",
    `${escaped}${"%0A".repeat(6000)}`,
    "",
  ]) {
    expect(await beat(headers(value))).toBe(invalid);
  }
});

it("P6: ignores the header on the ingest listener, where the TLS certificate decides", async () => {
  const tls = { certificate: host.certificate, listener: "ingest" } as const;
  expect(await beat({ ...headers("junk"), ...tls })).toBe("taken");
  expect(await beat({ ...headers(escaped), listener: "ingest" })).toBe(required);
});
