import { createHash } from "node:crypto";
import { createHeartbeats, type TakeHeartbeat } from "../../../functions/domain/fleet/heartbeat.ts";
import type { CertificateRow } from "../../../functions/store/certificates.ts";
import type { IdentityRow } from "../../../functions/store/identities.ts";
import { uuidv7 } from "../../../kit/entropy.ts";
import type { Host } from "../scenario/hosts.ts";
import type { Plan } from "../scenario/plan.ts";
import { createRandom, type Random } from "../scenario/random.ts";
import type { Step } from "../scenario/steps.ts";
import type { ModelCore } from "./model-core.ts";

/** A host with the steps that it is told by, the first its enrollment. */
export interface HostHistory {
  host: Host;
  steps: readonly Step[];
}

/** A certificate of the model. */
export interface ModelCertificate extends Pick<CertificateRow, "id" | "notBefore" | "notAfter"> {
  fingerprint: string;
  /** Whether core has seen it in use. */
  used: boolean;
}

/** A host as the model knows it. */
export interface ModelHost extends HostHistory {
  core: ModelCore;
  takeHeartbeat: TakeHeartbeat;
  identityId: string;
  ttl: "usual" | "short";
  /** In the order of their issue. */
  certificates: ModelCertificate[];
  random: Random;
}

/** The host at the moment of its enrollment, for which `coreAt` makes a core. */
export const createModelHost = (
  plan: Plan,
  { host, steps }: HostHistory,
  coreAt: (now: number) => ModelCore,
): ModelHost => {
  const [first] = steps;
  if (first?.kind !== "enroll") throw new Error("a host's first step is its enrollment");
  const core = coreAt(first.at);
  const random = createRandom(plan.seed, "ids", host.index);
  const identityId = uuidv7({ clock: core.clock, entropy: random });
  const takeHeartbeat = createHeartbeats(core);
  return { host, steps, core, takeHeartbeat, identityId, ttl: first.ttl, certificates: [], random };
};

/** The identity's row as enrollment writes it. */
export const identityRow = (
  { host, core, identityId }: ModelHost,
  grant: Pick<IdentityRow, "policyId" | "tokenId">,
): IdentityRow => ({
  id: identityId,
  identity: host.identity,
  deviceId: host.deviceId,
  policyId: grant.policyId,
  tokenId: grant.tokenId,
  hostname: host.hostname,
  platform: host.platform,
  collectorVersion: host.version,
  enrolledAt: new Date(core.clock.now()),
  revokedAt: null,
  lastAuthFailureAt: null,
  lastAuthFailureReason: null,
});

/** The row of the certificate that core would issue now; it becomes the host's newest. */
export const issueCertificate = (
  plan: Plan,
  host: ModelHost,
  { predecessorId, tokenId }: Pick<CertificateRow, "predecessorId" | "tokenId">,
): CertificateRow => {
  const { core, identityId, certificates, random } = host;
  const issuedAt = core.clock.now();
  const second = Math.floor(issuedAt / 1000) * 1000;
  const notAfter = second + plan.ttlSeconds[host.ttl] * 1000;
  const fingerprint = createHash("sha256").update(`${host.host.identity} ${certificates.length}`).digest();
  const row: CertificateRow = {
    id: uuidv7({ clock: core.clock, entropy: random }),
    identityId,
    predecessorId,
    tokenId,
    status: "active",
    serialNumber: random.bytes(16).toHex(),
    fingerprintSha256: fingerprint,
    spkiSha256: createHash("sha256").update(fingerprint).digest(),
    certificatePem: "",
    chainPem: "",
    notBefore: new Date(second - 60_000),
    notAfter: new Date(notAfter),
    renewAfter: new Date(issuedAt + Math.floor((notAfter - issuedAt) / 2)),
    issuedAt: new Date(issuedAt),
    firstUsedAt: null,
    replacedAt: null,
    revokedAt: null,
  };
  const { id, notBefore } = row;
  certificates.push({ id, notBefore, notAfter: row.notAfter, fingerprint: fingerprint.toString("hex"), used: false });
  return row;
};

/** A certificate of the host by the order of its issue. */
export const certificateOf = ({ host, certificates }: ModelHost, index: number): ModelCertificate => {
  const certificate = certificates[index];
  if (certificate === undefined) throw new Error(`${host.deviceId} has no certificate ${index}`);
  return certificate;
};
