import { hash, KeyObject, sign } from "node:crypto";
import { composeIdentity } from "#proto/identity.ts";
import { canonicalBody, type ProofPurpose, proofPayload } from "#proto/management/proof.ts";
import { decodePem } from "#proto/pem.ts";
import type { AgentKind } from "#proto/values.ts";
import {
  createTestCsr,
  createTestKey,
  type TestKey,
  type TestKeyKind,
} from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import type { Answer, Call, TestCore } from "./core.ts";

/** An enrolled host of a test: its key and its certificate. */
export interface TestCollector {
  readonly identity: string;
  readonly identityId: string;
  readonly certificateId: string;
  readonly key: TestKey;
  /** DER. */
  readonly certificate: Uint8Array<ArrayBuffer>;
}

/** The prefix of the identities of all test collectors. */
export const identityPrefix = "https://fleet.test/d/";

/**
 * Creates a policy as an admin, and a token of it that is unlimited unless its `terms` say otherwise. Returns the raw token, enrolls hosts with
 * it, and creates more tokens.
 */
export const createTestToken = async (
  { api, clock }: Pick<TestCore, "api" | "clock">,
  policy: Readonly<Record<string, unknown>> = {},
  terms: object = {},
) => {
  const policies = "/v1/collector/enrollment-policies";
  const named = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
  const made = await api("POST", policies, { as: "admin", body: { ...named, ...policy } });
  // Ids are ordered by millisecond, and randomly within one.
  await clock.advance(1000);
  const policyId = String(made.body.id);
  const createToken = async (of: object = {}) => {
    const body = { max_uses: 0, ...of };
    const answer = await api("POST", `${policies}/${policyId}/tokens`, { as: "admin", body });
    return { tokenId: String(answer.body.id), token: String(answer.body.token) };
  };
  const { tokenId, token } = await createToken(terms);
  const enroll = (deviceId: string, kind?: TestKeyKind, agent?: AgentKind) =>
    enrollTestCollector({ api }, { token, deviceId, agent, ...(kind && { kind }) });
  return {
    token,
    tokenId,
    policyId,
    createToken,
    enroll,
    /** Enrolls hosts at once. */
    enrollAll: <const Names extends readonly string[]>(...names: Names) =>
      Promise.all(names.map((name) => enroll(name))) as Promise<{
        [Name in keyof Names]: TestCollector;
      }>,
  };
};

/** Returns the body of an enrollment, by a new key unless one is given. */
export const enrollmentOf = async (
  deviceId: string,
  {
    key,
    prefix = identityPrefix,
    agent = "svc-collector",
  }: { key?: TestKey | undefined; prefix?: string; agent?: AgentKind } = {},
) => ({
  csr_pem: await createTestCsr({
    key: key ?? (await createTestKey()),
    uri: composeIdentity(prefix, deviceId),
  }),
  device_id: deviceId,
  platform: "linux/amd64",
  collector_version: "1.0.0",
  agent,
});

/** Sends an enrollment by a token. */
export const postEnrollment = (
  { api }: Pick<TestCore, "api">,
  token: string,
  body: object,
  call: Call = {},
) => api("POST", "/v1/collector/enroll", { as: { bearer: token }, body, ...call });

/** Enrolls a host through the API. */
export const enrollTestCollector = async (
  test: Pick<TestCore, "api">,
  {
    token,
    deviceId,
    kind = "p256",
    agent = "svc-collector",
  }: { token: string; deviceId: string; kind?: TestKeyKind; agent?: AgentKind | undefined },
): Promise<TestCollector> => {
  const key = await createTestKey(kind);
  const answer = await postEnrollment(test, token, await enrollmentOf(deviceId, { key, agent }));
  if (answer.status !== 201) throw new Error(`enrollment failed: ${JSON.stringify(answer.body)}`);
  return collectorOf(key, answer.body);
};

/** Creates the collector of a key from the response of enroll or renew. */
export const collectorOf = (
  key: TestKey,
  body: Readonly<Record<string, unknown>>,
): TestCollector => ({
  identity: String(body.identity),
  identityId: String(body.identity_id),
  certificateId: String(body.certificate_id),
  key,
  certificate: decodePem(String(body.certificate_pem), "CERTIFICATE") ?? new Uint8Array(),
});

/** The digest of the proofs of each kind of key. */
const digests: Partial<Record<TestKeyKind, string>> = { p256: "sha256", p384: "sha384" };

/** Returns the text that a collector signs for a body. */
export const payloadOf = (
  { identity, certificate }: Pick<TestCollector, "identity" | "certificate">,
  purpose: ProofPurpose,
  body: Readonly<Record<string, unknown>>,
): Uint8Array => {
  const hex = (data: Uint8Array | string) => hash("sha256", data, "hex");
  const payload = proofPayload({
    purpose,
    identity,
    certificateSha256: hex(certificate),
    sentAt: String(body.sent_at),
    bodySha256: hex(canonicalBody(body)),
  });
  return new TextEncoder().encode(payload);
};

/** Adds the `proof` by the collector's key to a body. */
export const withProof = (
  collector: TestCollector,
  purpose: ProofPurpose,
  body: Readonly<Record<string, unknown>>,
): Record<string, unknown> => {
  const data = payloadOf(collector, purpose, body);
  const privateKey = KeyObject.from(collector.key.pair.privateKey);
  return {
    ...body,
    proof: sign(digests[collector.key.kind] ?? null, data, privateKey).toString("base64"),
  };
};

/** The path of the request of each purpose. */
export const managementPaths = {
  renew: "/v1/collector/renew",
  heartbeat: "/v1/collector/heartbeat",
  config_desired: "/v1/collector/config/desired",
  diag: "/v1/collector/diag",
  ca_bundle: "/v1/collector/ca-bundle",
} as const;

/** Sends a signed management request over the mTLS listener, unless `call` overrides it. */
export const manage = (
  { api }: Pick<TestCore, "api">,
  collector: TestCollector,
  purpose: ProofPurpose,
  body: Readonly<Record<string, unknown>>,
  call: Call = {},
): Promise<Answer<Record<string, unknown>>> =>
  api("POST", managementPaths[purpose], {
    certificate: collector.certificate,
    listener: "ingest",
    body: withProof(collector, purpose, body),
    ...call,
  });

/** Sends a heartbeat of a healthy collector; `over` replaces fields. */
export const sendHeartbeat = (
  test: Pick<TestCore, "api" | "clock">,
  host: TestCollector,
  over: Readonly<Record<string, unknown>> = {},
  call: Call = {},
) => manage(test, host, "heartbeat", heartbeatBody(test.clock.now(), over), call);
