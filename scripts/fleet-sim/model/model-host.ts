import { createHash } from "node:crypto";
import type { Core } from "#functions/core.ts";
import { type AcceptHeartbeat, createHeartbeats } from "#functions/domain/fleet/heartbeat.ts";
import type { AgentRegister } from "#functions/opamp/agent-register.ts";
import { createAgentRegister } from "#functions/opamp/create-agent-register.ts";
import {
  type CertificateRow,
  insertCertificates,
} from "#functions/store/certificate/certificates.ts";
import { insertIdentities } from "#functions/store/certificate/identities.ts";
import type { Database } from "#functions/store/database/database.ts";
import { addEnrollments, addTokenUses } from "#functions/store/enrollment/policies.ts";
import { systemClock } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { createInProcessCore } from "#scripts/lab/in-process-core.ts";
import { insertEnrollments } from "#scripts/lab/seed-enrollments.ts";
import type { Plan } from "../scenario/plan.ts";
import { createRandom, type Random } from "../scenario/random.ts";
import { createSimulatedAgent, type SimulatedAgent } from "../scenario/simulated-agent.ts";
import type { HostHistory } from "../scenario/steps.ts";

/** A core whose clock shows the time that it is set to. */
export interface ModelCore extends Core {
  clock: Core["clock"] & { time: number };
}

/** Returns a factory of cores with the plan's thresholds over one database, each with its own clock. */
export const createModelCores = (db: Database, plan: Plan): ((now: number) => ModelCore) => {
  const core = createInProcessCore({
    db,
    clock: systemClock,
    entropy: createRandom(plan.seed, "core"),
    env: {
      SVC_HEARTBEAT_INTERVAL: `${plan.heartbeatIntervalSeconds}s`,
      ...(plan.versionMin === null ? {} : { SVC_COLLECTOR_MIN_VERSION: plan.versionMin }),
    },
  });
  return (now) => {
    const clock = { ...systemClock, time: now, now: () => clock.time };
    return { ...core, clock };
  };
};

/** A certificate of the model. */
export interface ModelCertificate extends Pick<CertificateRow, "id" | "notBefore" | "notAfter"> {
  fingerprint: string;
  /** Whether core has seen it in use. */
  used: boolean;
}

/** A host of the model, with its own core. */
export interface ModelHost extends HostHistory {
  core: ModelCore;
  takeHeartbeat: AcceptHeartbeat;
  /** Of a host whose agent speaks OpAMP. */
  agent: SimulatedAgent;
  register: AgentRegister;
  identityId: string;
  ttl: "usual" | "short";
  /** In the order of their issue. */
  certificates: ModelCertificate[];
  random: Random;
}

/** The policy and the token that hosts enroll with, by lifetime of their certificates. */
export type Grants = Readonly<Record<ModelHost["ttl"], { policyId: string; tokenId: string }>>;

/** Creates the hosts at the time of their enrollment, and writes the rows that enrollment writes. */
export const enrollHosts = async (
  coreAt: (now: number) => ModelCore,
  { plan, histories, grants }: { plan: Plan; histories: readonly HostHistory[]; grants: Grants },
): Promise<ModelHost[]> => {
  const hosts = histories.map((history) => createModelHost(plan, history, coreAt));
  const [first] = hosts;
  if (first === undefined) return [];
  await insertIdentities(
    first.core.db,
    hosts.map(({ host, core, identityId, ttl }) => ({
      id: identityId,
      identity: host.identity,
      deviceId: host.deviceId,
      ...grants[ttl],
      hostname: host.hostname,
      platform: host.platform,
      collectorVersion: host.version,
      agent: host.agent,
      enrolledAt: new Date(core.clock.now()),
      revokedAt: null,
      lastAuthFailureAt: null,
      lastAuthFailureReason: null,
      attestation: null,
    })),
  );
  await insertCertificates(
    first.core.db,
    hosts.map((host) =>
      issueCertificate(plan, host, { predecessorId: null, tokenId: grants[host.ttl].tokenId }),
    ),
  );
  await countEnrollments(first.core.db, hosts, grants);
  return hosts;
};

/** Writes what the pages count of enrollments: those of a policy, the uses of its token, and their events. */
const countEnrollments = async (
  db: Database,
  hosts: readonly ModelHost[],
  grants: Grants,
): Promise<void> => {
  for (const [ttl, group] of Map.groupBy(hosts, (host) => host.ttl)) {
    const { policyId, tokenId } = grants[ttl];
    const enrolled = group.map(({ host, core, identityId }) => ({
      n: host.index,
      id: identityId,
      identity: host.identity,
      enrolledAt: new Date(core.clock.now()),
      address: "192.0.2.1",
      policyId,
      tokenId,
      isReenrolled: false,
    }));
    const last = new Date(Math.max(...enrolled.map(({ enrolledAt }) => enrolledAt.getTime())));
    await insertEnrollments(db, "b600", enrolled);
    await addEnrollments(db, [{ id: policyId, enrollments: group.length }]);
    await addTokenUses(db, [{ id: tokenId, uses: group.length, address: "192.0.2.1" }], last);
  }
};

const createModelHost = (
  plan: Plan,
  { host, steps }: HostHistory,
  coreAt: (now: number) => ModelCore,
): ModelHost => {
  const [first] = steps;
  if (first?.kind !== "enroll") throw new Error("a host's first step is its enrollment");
  const core = coreAt(first.at);
  const random = createRandom(plan.seed, "ids", host.index);
  const identityId = uuidv7({ clock: core.clock, entropy: random });
  return {
    host,
    steps,
    core,
    takeHeartbeat: createHeartbeats(core),
    agent: createSimulatedAgent(plan, host),
    register: createAgentRegister(core),
    identityId,
    ttl: first.ttl,
    certificates: [],
    random,
  };
};

/** Returns the row of the certificate that core would issue now; it becomes the host's newest. */
export const issueCertificate = (
  plan: Plan,
  { host, ttl, core, identityId, certificates, random }: ModelHost,
  { predecessorId, tokenId }: Pick<CertificateRow, "predecessorId" | "tokenId">,
): CertificateRow => {
  const issuedAt = core.clock.now();
  const second = Math.floor(issuedAt / 1000) * 1000;
  const notAfter = second + plan.ttlSeconds[ttl] * 1000;
  const fingerprint = createHash("sha256")
    .update(`${host.identity} ${certificates.length}`)
    .digest();
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
    endedXid: null,
  };
  const { id, notBefore } = row;
  certificates.push({
    id,
    notBefore,
    notAfter: row.notAfter,
    fingerprint: fingerprint.toString("hex"),
    used: false,
  });
  return row;
};

/** Returns the host's certificate of this number. */
export const certificateOf = (
  { host, certificates }: ModelHost,
  index: number,
): ModelCertificate => {
  const certificate = certificates[index];
  if (certificate === undefined) throw new Error(`${host.deviceId} has no certificate ${index}`);
  return certificate;
};
