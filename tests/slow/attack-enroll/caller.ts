import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { encodePem } from "#proto/pem.ts";
import { createTestCsr, createTestKey, type TestKey } from "#scripts/lab/ca/test-pki.ts";
import { clientCertificateHeader } from "#scripts/lab/core-process.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import type { LabCore } from "#scripts/lab/lab-core.ts";
import { createPolicyWithToken } from "#scripts/lab/operator-api.ts";
import {
  collectorOf,
  identityPrefix,
  type TestCollector,
  withProof,
} from "#tests/support/collector.ts";

/** A response of core. */
export interface Answer {
  status: number;
  body: Record<string, unknown>;
  /** From `Retry-After`; absent without one. */
  retryAfterSeconds?: number;
}

/** Names a response by its status and problem code. */
export const nameOf = ({ status, body }: Answer): string =>
  typeof body.code === "string" ? `${status} ${body.code}` : String(status);

/** Counts responses by name. */
export const tally = (answers: readonly Answer[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const name of answers.map(nameOf).sort()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
};

/** A host to enroll, with its request prepared so that an attack has no other work to do. */
export interface Candidate {
  deviceId: string;
  key: TestKey;
  body: object;
}

/** Creates a candidate with a new device id and key. */
export const createCandidate = async (): Promise<Candidate> => {
  const deviceId = crypto.randomUUID();
  const key = await createTestKey();
  const csrPem = await createTestCsr({ key, uri: identityPrefix + deviceId });
  const body = {
    csr_pem: csrPem,
    device_id: deviceId,
    platform: "linux/amd64",
    collector_version: "1.0.0",
  };
  return { deviceId, key, body };
};

/** A machine that calls core over connections of its own. */
export interface Caller {
  enroll(candidate: Candidate, token: string): Promise<Answer>;
  /** Renews with a fresh key or the one given; the certificate goes in the header that core trusts. */
  renew(host: TestCollector, key: TestKey, sentAt: number): Promise<Answer>;
  heartbeat(host: TestCollector, sentAt: number): Promise<Answer>;
  close(): void;
}

/** Creates a caller with this loopback address; systems other than Linux have only 127.0.0.1. */
export const createCaller = (
  { httpUrl }: Pick<LabCore, "httpUrl">,
  address = "127.0.0.1",
): Caller => {
  const agent = new Agent({ keepAlive: true });
  const localAddress = process.platform === "linux" ? address : "127.0.0.1";
  const post = async (
    path: string,
    headers: Record<string, string>,
    body: object,
  ): Promise<Answer> => {
    const sent = request(httpUrl + path, {
      method: "POST",
      agent,
      localAddress,
      headers: { "Content-Type": "application/json", ...headers },
      timeout: 30_000,
    });
    sent.on("timeout", () => sent.destroy(new Error(`${path}: no response within 30 s`)));
    sent.end(JSON.stringify(body));
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    const retryAfter = response.headers["retry-after"];
    return {
      status: response.statusCode ?? 0,
      body: JSON.parse(await text(response)),
      ...(retryAfter === undefined ? {} : { retryAfterSeconds: Number(retryAfter) }),
    };
  };
  const certificateOf = (host: TestCollector) => ({
    [clientCertificateHeader]: encodeURIComponent(encodePem(host.certificate, "CERTIFICATE")),
  });
  return {
    enroll: (candidate, token) =>
      post("/v1/collector/enroll", { Authorization: `Bearer ${token}` }, candidate.body),
    renew: async (host, key, sentAt) => {
      const csrPem = await createTestCsr({ key, uri: host.identity });
      const body = {
        csr_pem: csrPem,
        collector_version: "1.0.1",
        sent_at: new Date(sentAt).toISOString(),
      };
      return post("/v1/collector/renew", certificateOf(host), withProof(host, "renew", body));
    },
    heartbeat: (host, sentAt) =>
      post(
        "/v1/collector/heartbeat",
        certificateOf(host),
        withProof(host, "heartbeat", heartbeatBody(sentAt)),
      ),
    close: () => agent.destroy(),
  };
};

/** Creates a policy with an unlimited token. */
export const createPolicy = (
  { api }: Pick<LabCore, "api">,
  policy: Readonly<Record<string, unknown>> = {},
): Promise<{ policyId: string; token: string }> => {
  const usual = { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] };
  return createPolicyWithToken(api, { ...usual, ...policy }, { max_uses: 0 });
};

/** Enrolls a new host. Throws when core rejects it. */
export const createHost = async (caller: Caller, token: string): Promise<TestCollector> => {
  const candidate = await createCandidate();
  const answer = await caller.enroll(candidate, token);
  if (answer.status !== 201) throw new Error(`enrollment failed: ${nameOf(answer)}`);
  return collectorOf(candidate.key, answer.body);
};
