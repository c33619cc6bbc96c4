import { createHash, createPrivateKey, generateKeyPairSync } from "node:crypto";
import { createCsr } from "#collector/identity/request-certificate.ts";
import { signBody } from "#collector/management/signed-request.ts";
import { rfc3339 } from "#kit/clock.ts";
import { decodePem, encodePem } from "#proto/pem.ts";
import type { Host } from "../scenario/hosts.ts";
import type { Plan } from "../scenario/plan.ts";
import { createSimulatedAgent } from "../scenario/simulated-agent.ts";
import { composeReport, type Step } from "../scenario/steps.ts";
import type { FleetOperator } from "./operator.ts";
import {
  codeOf,
  expectStatus,
  type HostCredentials,
  textOf,
  type Wire,
  WireError,
  type WireResponse,
} from "./wire.ts";

/** The dependencies of a driven host. */
export interface DriveContext {
  wire: Wire;
  /** Returns a token to enroll with. */
  bootstrapToken(ttl: "usual" | "short"): Promise<string>;
  operator: Omit<FleetOperator, "bootstrapToken"> | null;
  /** Core's clock as far as it is known. */
  now(): number;
  /** The configs of hosts. */
  configs: Plan["configs"];
  /** Receives core's time from a response. */
  receiveServerTime(serverTime: number): void;
}

/** The result of a step: `done`, `accepted`, or the code of core's refusal; and when, by core's clock. */
export interface StepResult {
  outcome: string;
  at: number;
}

interface IssuedCredentials extends HostCredentials {
  id: string;
  fingerprintSha256: string;
}

/** A host with a real key and real certificates; it performs one step after the other. */
export interface DrivenHost {
  readonly host: Host;
  /** Performs one step. Rejects with `WireError` if core was not reached, or rejected what it should have accepted. */
  perform(step: Step): Promise<StepResult>;
}

const managementPaths = {
  renew: "/v1/collector/renew",
  heartbeat: "/v1/collector/heartbeat",
} as const;

/** Creates a host that is not enrolled yet. */
export const createDrivenHost = (host: Host, context: DriveContext): DrivenHost => {
  const { wire, operator } = context;
  const { identity } = host;
  /** By number; only the newest two, since a successor may be used or replaced. */
  const issued = new Map<number, IssuedCredentials>();
  let issuedCount = 0;
  let identityId = "";
  let lastSentAt = 0;
  let sequence = 0;
  /** The key of an enrollment without a response: for the same key core returns the certificate that it issued. */
  let enrollmentKey: Uint8Array | undefined;

  const credentialsOf = (certificate: number): IssuedCredentials => {
    const credentials = issued.get(certificate);
    if (credentials === undefined) throw new WireError("not_enrolled");
    return credentials;
  };

  const csrOf = (key: Uint8Array) => createCsr(identity, encodePem(key, "PRIVATE KEY"));

  const serverTimeOf = (body: WireResponse["body"]): number => {
    const serverTime = Date.parse(textOf(body, "server_time"));
    context.receiveServerTime(serverTime);
    return serverTime;
  };

  const install = (key: Uint8Array, body: WireResponse["body"]): StepResult => {
    const certificate = decodePem(textOf(body, "certificate_pem"), "CERTIFICATE");
    if (certificate === undefined) throw new WireError("answer_invalid");
    const id = textOf(body, "certificate_id");
    const fingerprintSha256 = textOf(body, "fingerprint_sha256");
    issued.set(issuedCount++, { id, fingerprintSha256, key, certificate });
    issued.delete(issuedCount - 3);
    identityId = textOf(body, "identity_id");
    return { outcome: "done", at: serverTimeOf(body) };
  };

  const manage = (
    purpose: keyof typeof managementPaths,
    body: object,
    {
      certificate,
      skew = 0,
      key,
    }: { certificate: number; skew?: number; key?: Uint8Array | undefined },
  ): Promise<WireResponse> => {
    const credentials = credentialsOf(certificate);
    lastSentAt = Math.max(context.now() + skew, lastSentAt + 1);
    const der = Buffer.from(key ?? credentials.key);
    const privateKey = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
    const signer = { identity, fingerprintSha256: credentials.fingerprintSha256, privateKey };
    const signed = signBody(purpose, signer, { ...body, sent_at: rfc3339(lastSentAt) });
    return wire.manage({ path: managementPaths[purpose], body: signed }, credentials);
  };

  const enroll = async (ttl: "usual" | "short"): Promise<StepResult> => {
    enrollmentKey ??= generateKey();
    const key = enrollmentKey;
    const body = {
      csr_pem: await csrOf(key),
      device_id: host.deviceId,
      hostname: host.hostname,
      platform: host.platform,
      collector_version: host.version,
      agent: host.agent,
    };
    const bearer = await context.bootstrapToken(ttl);
    const response = await wire.call({
      method: "POST",
      path: "/v1/collector/enroll",
      bearer,
      body,
    });
    const result = install(key, expectStatus(response, 201));
    enrollmentKey = undefined;
    return result;
  };

  const renew = async (certificate: number): Promise<StepResult> => {
    const key = generateKey();
    const body = { csr_pem: await csrOf(key), collector_version: host.version };
    return install(key, expectStatus(await manage("renew", body, { certificate }), 200));
  };

  const agent = createSimulatedAgent(context, host);
  const poll = async (step: Step & { kind: "heartbeat" }): Promise<StepResult> => {
    const credentials = credentialsOf(step.certificate);
    try {
      await agent.poll(step.status, (message) => wire.poll(message, credentials));
      return { outcome: "accepted", at: context.now() };
    } catch (error) {
      if (!(error instanceof WireError) || error.isTransient) throw error;
      return { outcome: error.code, at: context.now() };
    }
  };

  const heartbeat = async (step: Step & { kind: "heartbeat" }): Promise<StepResult> => {
    if (host.agent === "otelcol") return poll(step);
    const { certificate, skew, signedBy } = step;
    const key = signedBy === "other_key" ? generateKey() : undefined;
    const report = composeReport(host, step.at, step.status);
    const response = await manage("heartbeat", report, { certificate, skew, key });
    if (response.status === 200) return { outcome: "accepted", at: serverTimeOf(response.body) };
    return { outcome: codeOf(response), at: context.now() };
  };

  const forward = async (certificate: number): Promise<void> => {
    if (wire.forward === null) throw new WireError("ingest_unknown");
    const queueId = new Uint8Array(createHash("sha256").update(identity).digest().subarray(0, 16));
    await wire.forward({ identity, queueId, sequence: sequence + 1 }, credentialsOf(certificate));
    sequence++;
  };

  const done = async (work: Promise<unknown> | undefined): Promise<StepResult> => {
    await work;
    return { outcome: "done", at: context.now() };
  };

  return {
    host,
    async perform(step) {
      switch (step.kind) {
        case "enroll":
          return enroll(step.ttl);
        case "renew":
          return renew(step.certificate);
        case "heartbeat":
          return heartbeat(step);
        case "forward":
          return done(forward(step.certificate));
        case "revoke_identity":
          return done(operator?.revokeIdentity(identityId, step.reasonCode));
        case "revoke_certificate":
          return done(
            operator?.revokeCertificate(credentialsOf(step.certificate).id, step.reasonCode),
          );
        case "assign":
          return done(operator?.assign(identityId, host.agent, step.config));
        case "note":
          return { outcome: "done", at: step.at };
      }
    },
  };
};

/** Generates a P-256 key as PKCS#8. */
const generateKey = (): Uint8Array =>
  new Uint8Array(
    generateKeyPairSync("ec", {
      namedCurve: "P-256",
      publicKeyEncoding: { type: "spki", format: "der" },
      privateKeyEncoding: { type: "pkcs8", format: "der" },
    }).privateKey,
  );
