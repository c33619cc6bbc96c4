import { createHash, createPrivateKey, generateKeyPairSync } from "node:crypto";
import { createCsr } from "../../../collector/identity/request-certificate.ts";
import { signBody } from "../../../collector/management/signed-request.ts";
import { rfc3339 } from "../../../kit/clock.ts";
import { decodePem, encodePem } from "../../../proto/pem.ts";
import type { Host } from "../scenario/hosts.ts";
import { composeReport, type Step } from "../scenario/steps.ts";
import type { FleetOperator } from "./operator.ts";
import { type Answer, codeOf, expectStatus, type HostCredentials, textOf, type Wire, WireError } from "./wire.ts";

/** What drives a host. */
export interface DriveMeans {
  wire: Wire;
  /** Tokens to enroll with. */
  bootstrapToken(ttl: "usual" | "short"): Promise<string>;
  operator: Omit<FleetOperator, "bootstrapToken"> | null;
  /** Core's clock as far as it is known. */
  now(): number;
  /** Core has told its time. */
  hearTime(serverTime: number): void;
}

/** What became of a step: `done`, `accepted`, or the code of core's refusal; and when, by core's clock. */
export interface StepResult {
  outcome: string;
  at: number;
}

interface Held extends HostCredentials {
  id: string;
  fingerprintSha256: string;
}

/** A host with a real key and real certificates, which does its steps one after the other. */
export interface DrivenHost {
  readonly host: Host;
  /** Does one step. Rejects with `WireError` where core was not reached or refused what should have been taken. */
  perform(step: Step): Promise<StepResult>;
}

const managementPaths = { renew: "/v1/collector/renew", heartbeat: "/v1/collector/heartbeat" } as const;

/** Makes a host that is not enrolled yet. */
export const createDrivenHost = (host: Host, means: DriveMeans): DrivenHost => {
  const { wire } = means;
  const { identity } = host;
  /** By the order of their issue; the newest two, as a successor is taken up or replaced. */
  const certificates = new Map<number, Held>();
  let issued = 0;
  let identityId = "";
  let lastSentAt = 0;
  let sequence = 0;
  /** Of an enrollment that was not answered: with the same key core gives what it issued. */
  let firstKey: Uint8Array | undefined;

  const held = (index: number): Held => {
    const certificate = certificates.get(index);
    if (certificate === undefined) throw new WireError("not_enrolled");
    return certificate;
  };

  const take = (key: Uint8Array, body: Answer["body"]): number => {
    const certificate = decodePem(textOf(body, "certificate_pem"), "CERTIFICATE");
    if (certificate === undefined) throw new WireError("answer_invalid");
    const [id, fingerprintSha256] = [textOf(body, "certificate_id"), textOf(body, "fingerprint_sha256")];
    certificates.set(issued++, { id, fingerprintSha256, key, certificate });
    certificates.delete(issued - 3);
    identityId = textOf(body, "identity_id");
    return hear(body);
  };

  const hear = (body: Answer["body"]): number => {
    const serverTime = Date.parse(textOf(body, "server_time"));
    means.hearTime(serverTime);
    return serverTime;
  };

  const manage = (
    purpose: keyof typeof managementPaths,
    body: object,
    { certificate, skew = 0, key }: { certificate: number; skew?: number; key?: Uint8Array },
  ): Promise<Answer> => {
    const credentials = held(certificate);
    lastSentAt = Math.max(means.now() + skew, lastSentAt + 1);
    const privateKey = privateKeyOf(key ?? credentials.key);
    const signer = { identity, fingerprintSha256: credentials.fingerprintSha256, privateKey };
    const signed = signBody(purpose, signer, { ...body, sent_at: rfc3339(lastSentAt) });
    return wire.manage({ path: managementPaths[purpose], body: signed }, credentials);
  };

  const enroll = async (ttl: "usual" | "short"): Promise<number> => {
    firstKey ??= generateKey();
    const key = firstKey;
    const body = {
      csr_pem: await createCsr(identity, encodePem(key, "PRIVATE KEY")),
      device_id: host.deviceId,
      hostname: host.hostname,
      platform: host.platform,
      collector_version: host.version,
    };
    const bearer = await means.bootstrapToken(ttl);
    const answer = await wire.call({ method: "POST", path: "/v1/collector/enroll", bearer, body });
    const at = take(key, expectStatus(answer, 201));
    firstKey = undefined;
    return at;
  };

  const renew = async (certificate: number): Promise<number> => {
    const key = generateKey();
    const csr = await createCsr(identity, encodePem(key, "PRIVATE KEY"));
    const answer = await manage("renew", { csr_pem: csr, collector_version: host.version }, { certificate });
    return take(key, expectStatus(answer, 200));
  };

  const heartbeat = async (step: Step & { kind: "heartbeat" }): Promise<StepResult> => {
    const { certificate, skew, signedBy } = step;
    const report = composeReport(host, step.at, step.status);
    const answer = await manage("heartbeat", report, {
      certificate,
      skew,
      ...(signedBy === "other_key" ? { key: generateKey() } : {}),
    });
    if (answer.status === 200) return { outcome: "accepted", at: hear(answer.body) };
    return { outcome: codeOf(answer), at: means.now() };
  };

  const forward = async (certificate: number): Promise<void> => {
    if (wire.forward === null) throw new WireError("ingest_unknown");
    const queueId = new Uint8Array(createHash("sha256").update(identity).digest().subarray(0, 16));
    await wire.forward({ identity, queueId, sequence: sequence + 1 }, held(certificate));
    sequence++;
  };

  const done = async (work: Promise<unknown> | undefined): Promise<StepResult> => {
    await work;
    return { outcome: "done", at: means.now() };
  };
  const { operator } = means;

  return {
    host,
    async perform(step) {
      switch (step.kind) {
        case "enroll":
          return { outcome: "done", at: await enroll(step.ttl) };
        case "renew":
          return { outcome: "done", at: await renew(step.certificate) };
        case "heartbeat":
          return heartbeat(step);
        case "forward":
          return done(forward(step.certificate));
        case "revoke_identity":
          return done(operator?.revokeIdentity(identityId, step.reasonCode));
        case "revoke_certificate":
          return done(operator?.revokeCertificate(held(step.certificate).id, step.reasonCode));
        case "assign":
          return done(operator?.assign(identityId));
        case "age":
          return done(wire.age?.(identity));
        case "note":
          return { outcome: "done", at: step.at };
      }
    },
  };
};

/** A fresh P-256 key, PKCS#8. */
const generateKey = (): Uint8Array =>
  new Uint8Array(
    generateKeyPairSync("ec", {
      namedCurve: "P-256",
      publicKeyEncoding: { type: "spki", format: "der" },
      privateKeyEncoding: { type: "pkcs8", format: "der" },
    }).privateKey,
  );

const privateKeyOf = (key: Uint8Array) => createPrivateKey({ key: Buffer.from(key), format: "der", type: "pkcs8" });
