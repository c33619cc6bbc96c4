import { createHash } from "node:crypto";
import { certificate, collectorIdentity } from "../../drizzle/schema/certificate.ts";
import { collectorConfig, configAssignment } from "../../drizzle/schema/config.ts";
import { bootstrapToken, enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import { collectorHealth } from "../../drizzle/schema/health.ts";
import { ingestHost, ingestHour } from "../../drizzle/schema/ingest.ts";
import type { Database } from "../../functions/store/database/database.ts";
import { people } from "../../scripts/lab/people.ts";

/** A Thursday afternoon: the weekend is to come, and ten o'clock is past. */
export const questionsNow = Date.UTC(2026, 10, 26, 14, 30);

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

const ago = (ms: number): Date => new Date(questionsNow - ms);
/** A time of today in UTC. */
const today = (clock: string): Date => new Date(`2026-11-26T${clock}Z`);

/** What is special about a host. All else is as of a healthy host that runs its config. */
interface Special {
  version?: string;
  enrolledVersion?: string;
  enrolledAt?: Date;
  versionSince?: Date;
  heartbeatAt?: Date | null;
  envelopeAt?: Date | null;
  queueBytes?: number;
  atRisk?: boolean;
  dropped?: number;
  droppedSincePrevious?: boolean;
  deadLetters?: number;
  recoveredAt?: Date;
  invalidSince?: Date;
  authFailedAt?: Date;
  /** When the certificate expires, and its unused successor. */
  expiresAt?: Date;
  successorExpiresAt?: Date;
  /** Null: core assigned none. */
  assigned?: keyof typeof questionsConfigs | null;
  assignedAt?: Date;
  desiredReported?: keyof typeof questionsConfigs;
  running?: keyof typeof questionsConfigs | null;
  runningSince?: Date;
  lastGood?: keyof typeof questionsConfigs;
}

/** The configs by name: `db r1` is everywhere it should be, `web r2` is not, and nobody should run `edge r1`. */
export const questionsConfigs = {
  "web r1": "# revision 1\n",
  "web r2": "# revision 2\n",
  "edge r1": "# edge\n",
  "db r1": "# databases\n",
} as const;

const sha256 = (text: string) => createHash("sha256").update(text);

/** Returns the hash of a config, lowercase hex. */
export const hashOf = (name: keyof typeof questionsConfigs): string => sha256(questionsConfigs[name]).digest("hex");

/** Each host with what makes it an answer to a question, or one that is nearly an answer. */
const specials: Readonly<Record<string, Special>> = {
  "web-plain": {},
  // Forwarding: by the last envelope.
  "fwd-0900-silent": { envelopeAt: today("09:00:00.000"), heartbeatAt: today("09:00:00.000") },
  "fwd-0930-queues": { envelopeAt: today("09:30:00.000"), heartbeatAt: today("09:30:00.000"), queueBytes: 4096 },
  "fwd-0959": { envelopeAt: today("09:59:59.900") },
  "fwd-1000": { envelopeAt: today("10:00:00.000") },
  "fwd-1010": { envelopeAt: today("10:10:00.000") },
  "fwd-1424": { envelopeAt: today("14:24:00.000") },
  "fwd-1427": { envelopeAt: today("14:27:00.000") },
  "fwd-never": { envelopeAt: null, queueBytes: 30 * 1024 * 1024 },
  // The test revokes these through the API, except for the last.
  "gone-stolen": {},
  "gone-retired": { heartbeatAt: ago(3 * hour), envelopeAt: ago(3 * hour) },
  "gone-not": {},
  // Desired and running configs.
  "cfg-r2-running": { assigned: "web r2", assignedAt: ago(3 * hour), running: "web r2", runningSince: ago(2 * hour) },
  "cfg-r2-drifted": { assigned: "web r2", assignedAt: ago(3 * hour), running: "edge r1" },
  "cfg-r2-fallen-back": { assigned: "web r2", assignedAt: ago(3 * hour), running: "web r1", lastGood: "web r1" },
  "cfg-r2-invalid": { assigned: "web r2", assignedAt: ago(3 * hour), running: "web r1", invalidSince: ago(2 * hour) },
  "cfg-r2-silent": { assigned: "web r2", assignedAt: ago(3 * hour), heartbeatAt: ago(4 * hour) },
  "cfg-r2-silent-running": {
    ...{ assigned: "web r2", assignedAt: ago(5 * hour), heartbeatAt: ago(4 * hour) },
    ...{ running: "web r2", runningSince: ago(5 * hour) },
  },
  "cfg-r2-revoked": { assigned: "web r2", assignedAt: ago(3 * hour), running: "web r1" },
  "cfg-r2-reported": { assigned: null, desiredReported: "web r2", running: "web r2", runningSince: ago(6 * hour) },
  "cfg-r2-unasked": { assigned: "web r1", running: "web r2", runningSince: ago(6 * hour) },
  "cfg-db-1": { assigned: "db r1", assignedAt: ago(4 * day), running: "db r1", runningSince: ago(3 * day) },
  "cfg-db-2": { assigned: "db r1", assignedAt: ago(4 * day), running: "db r1", runningSince: ago(3 * day - hour) },
  "cfg-none": { assigned: null, running: "edge r1" },
  "cfg-unknown": { running: null },
  // Certificates: the weekend is 28 and 29 November.
  "crt-friday": { expiresAt: new Date("2026-11-27T23:59:59.999Z") },
  "crt-saturday": { expiresAt: new Date("2026-11-28T00:00:00.000Z") },
  "crt-sunday": { expiresAt: new Date("2026-11-29T23:59:59.999Z") },
  "crt-monday": { expiresAt: new Date("2026-11-30T00:00:00.000Z") },
  "crt-renewed": {
    expiresAt: new Date("2026-11-28T09:00:00.000Z"),
    successorExpiresAt: new Date("2026-12-19T09:00:00.000Z"),
  },
  "crt-renewed-briefly": {
    expiresAt: new Date("2026-11-27T09:00:00.000Z"),
    successorExpiresAt: new Date("2026-11-29T09:00:00.000Z"),
  },
  // Versions: as text, 1.10.0 is below 1.4.
  "ver-0.9.12": { version: "0.9.12" },
  "ver-1.3.9": { version: "1.3.9" },
  "ver-1.4.0-rc.1": { version: "1.4.0-rc.1" },
  "ver-1.4.0": { version: "1.4.0" },
  "ver-1.10.0": { version: "1.10.0" },
  "ver-latest": { version: "latest" },
  "ver-upgraded": { version: "1.5.0", enrolledVersion: "1.3.0" },
  "ver-silent": { version: "1.4.2", enrolledVersion: "1.2.0", heartbeatAt: null, envelopeAt: null },
  // Data: lost once, lost just now, about to be lost, refused by core, and merely waiting.
  "data-lost-once": { dropped: 7 },
  "data-losing": { dropped: 1200, droppedSincePrevious: true, queueBytes: 104_857_600, atRisk: true },
  "data-refused": { deadLetters: 3, droppedSincePrevious: true },
  "data-at-risk": { queueBytes: 99 * 1024 * 1024, atRisk: true },
  "data-waiting": { queueBytes: 60 * 1024 * 1024 },
  // Authentication: failures against heartbeats.
  "auth-failing": { authFailedAt: ago(2 * minute), heartbeatAt: ago(2 * hour) },
  "auth-failing-new": { authFailedAt: ago(hour), heartbeatAt: null, envelopeAt: null },
  "auth-failing-a-day": { authFailedAt: ago(day), heartbeatAt: ago(2 * day) },
  "auth-failed-yesterday": { authFailedAt: ago(day + second), heartbeatAt: ago(2 * day) },
  "auth-recovered": { authFailedAt: ago(hour) },
  // Changes of the last hour.
  "chg-enrolled": { enrolledAt: ago(hour), versionSince: ago(50 * minute), runningSince: ago(50 * minute) },
  "chg-enrolled-before": { enrolledAt: ago(hour + second), versionSince: ago(hour + second) },
  "chg-version": { versionSince: ago(10 * minute) },
  "chg-config": { assignedAt: ago(59 * minute), runningSince: ago(58 * minute) },
  "chg-config-before": { assignedAt: ago(hour + second), runningSince: ago(hour + second) },
  "chg-invalid": { invalidSince: ago(20 * minute) },
  "chg-recovered": { recoveredAt: ago(59 * minute) },
  "chg-recovered-before": { recoveredAt: ago(61 * minute) },
  "chg-stale": { heartbeatAt: ago(30 * minute), envelopeAt: ago(30 * minute) },
  "chg-stale-before": { heartbeatAt: ago(2 * hour), envelopeAt: ago(2 * hour) },
  "chg-expired": { expiresAt: ago(10 * minute) },
  "chg-expired-before": { expiresAt: ago(61 * minute) },
};

/** The hosts that `specials` names, in order. */
const deviceIds = Object.keys(specials);

const idOf = (kind: string, n: number): string => `01920000-0000-7000-${kind}-${n.toString(16).padStart(12, "0")}`;
const seedId = idOf("8000", 0xffff);
const identityOf = (deviceId: string): string => `https://fleet.example.test/q/${deviceId}`;

/** Returns the id of a host. */
export const hostIdOf = (deviceId: string): string => {
  const n = deviceIds.indexOf(deviceId);
  if (n < 0) throw new Error(`no host ${deviceId}`);
  return idOf("8000", n);
};

const configIdOf = (name: string): string => idOf("b000", Object.keys(questionsConfigs).indexOf(name));

/** The host whose envelopes are counted, and one whose name begins alike. */
export const sender = "data-waiting";
const volumes: readonly [host: string, at: string, kind: string, envelopes: number, bytes: number][] = [
  [sender, "2026-11-26T14:00:00Z", "otel_span", 1200, 480_000],
  [sender, "2026-11-26T14:00:00Z", "log_line", 35, 7000],
  [sender, "2026-11-26T09:00:00Z", "otel_span", 800, 320_000],
  [sender, "2026-11-26T00:00:00Z", "other", 4, 64],
  [sender, "2026-11-25T23:00:00Z", "otel_metric", 999, 99_900],
  [sender, "2026-11-25T23:00:00Z", "otel_span", 111, 11_100],
  ["web-plain", "2026-11-26T14:00:00Z", "otel_span", 77, 7700],
];

/** Writes the hosts of the ten questions into an empty database, straight into the tables that core fills. */
export const seedQuestions = async (db: Database): Promise<void> => {
  const hosts = deviceIds.map((deviceId, n) => ({ deviceId, n, id: idOf("8000", n), ...specials[deviceId] }));
  await db.insert(enrollmentPolicy).values({
    ...{ id: seedId, name: "questions", allowedIdentityPrefixes: [], certificateTtlSeconds: 1_814_400 },
    ...{ allowedPlatforms: [], maxEnrollments: 0, maxEnrollmentsPerHour: 0, allowedSourceCidrs: [] },
    ...{ reenrollment: "deny", createdAt: ago(30 * day), createdBy: people.admin.userId },
  });
  await db.insert(bootstrapToken).values({
    ...{ id: seedId, policyId: seedId, tokenSha256: sha256("token").digest(), tokenPrefix: "questions" },
    ...{
      allowedSourceCidrs: [],
      maxUses: 0,
      expiresAt: ago(-day),
      createdAt: ago(30 * day),
      createdBy: people.admin.userId,
    },
  });
  await db.insert(collectorConfig).values(
    Object.entries(questionsConfigs).map(([name, yaml], n) => ({
      ...{ id: configIdOf(name), name, yaml, configHash: sha256(yaml).digest("hex"), sizeBytes: yaml.length },
      ...{ createdAt: ago((20 - n) * day), createdBy: people.admin.userId },
    })),
  );
  await db.insert(collectorIdentity).values(
    hosts.map((host) => ({
      ...{
        id: host.id,
        identity: identityOf(host.deviceId),
        deviceId: host.deviceId,
        policyId: seedId,
        tokenId: seedId,
      },
      ...{ platform: "linux/amd64", collectorVersion: host.enrolledVersion ?? host.version ?? "1.4.2" },
      enrolledAt: host.enrolledAt ?? ago(10 * day),
      ...(host.authFailedAt ? { lastAuthFailureAt: host.authFailedAt, lastAuthFailureReason: "proof_invalid" } : {}),
    })),
  );
  const certificateOf = (kind: "9000" | "a000", { id, n, enrolledAt }: (typeof hosts)[number], notAfter?: Date) => {
    const fingerprintSha256 = sha256(`${kind} ${n}`).digest();
    const expiresAt = notAfter ?? ago(-16 * day);
    const issuedAt =
      kind === "a000" ? ago(2 * hour) : new Date(Math.min(+expiresAt - 21 * day, +(enrolledAt ?? ago(0))));
    return {
      ...{ id: idOf(kind, n), identityId: id, status: "active" as const, serialNumber: `${kind}${n.toString(16)}` },
      ...{ fingerprintSha256, spkiSha256: fingerprintSha256, certificatePem: "", chainPem: "", notBefore: issuedAt },
      ...{ notAfter: expiresAt, renewAfter: new Date((+issuedAt + +expiresAt) / 2), issuedAt },
    };
  };
  await db.insert(certificate).values(
    hosts.map((host) => ({
      ...certificateOf("9000", host, host.expiresAt),
      firstUsedAt: host.enrolledAt ?? ago(10 * day),
    })),
  );
  await db.insert(certificate).values(
    hosts
      .filter(({ successorExpiresAt }) => successorExpiresAt !== undefined)
      .map((host) => ({
        ...certificateOf("a000", host, host.successorExpiresAt),
        predecessorId: idOf("9000", host.n),
      })),
  );
  await db.insert(collectorHealth).values(
    hosts
      .filter(({ heartbeatAt }) => heartbeatAt !== null)
      .map((host) => {
        const running = host.running === null ? null : hashOf(host.running ?? "web r1");
        const lastHeartbeatAt = host.heartbeatAt ?? ago(10 * second);
        return {
          ...{ identityId: host.id, certificateId: idOf("9000", host.n), lastHeartbeatAt, bootId: "boot" },
          ...{
            collectorVersion: host.version ?? "1.4.2",
            collectorCommit: "c0ffee",
            hostname: `${host.deviceId}.test`,
          },
          ...{ platform: "linux/amd64", startedAt: ago(9 * day), configValid: host.invalidSince === undefined },
          ...{ configErrors: host.invalidSince ? ["forwarder: endpoint is missing"] : [], runningConfigHash: running },
          desiredConfigHash: host.desiredReported ? hashOf(host.desiredReported) : null,
          lastKnownGoodConfigHash: host.lastGood ? hashOf(host.lastGood) : null,
          ...{ queue_records: 1, queue_bytes: host.queueBytes ?? 0, queue_bytes_max: 104_857_600 },
          ...{
            queue_oldest_record_age_seconds: 1,
            dropped_records_total: host.dropped ?? 0,
            dead_letters: host.deadLetters ?? 0,
          },
          ...{ droppedSincePrevious: host.droppedSincePrevious ?? false, queueAtRisk: host.atRisk ?? false },
          queueAtRiskSince: host.atRisk || host.droppedSincePrevious ? ago(2 * hour) : null,
          ...{ forwarderConnected: host.envelopeAt === undefined, renewalStatus: "ok" as const },
          configInvalidSince: host.invalidSince ?? null,
          versionSince: host.versionSince ?? ago(9 * day),
          runningConfigSince: host.runningSince ?? ago(9 * day),
          recoveredAt: host.recoveredAt ?? null,
        };
      }),
  );
  await db.insert(ingestHost).values(
    hosts
      .filter(({ envelopeAt }) => envelopeAt !== null)
      .map(({ deviceId, envelopeAt }) => ({
        hostId: identityOf(deviceId),
        lastEnvelopeAt: envelopeAt ?? ago(5 * second),
      })),
  );
  await db.insert(configAssignment).values(
    hosts
      .filter(({ assigned }) => assigned !== null)
      .map(({ n, id, assigned, assignedAt }) => ({
        ...{ id: idOf("c000", n), identityId: id, configId: configIdOf(assigned ?? "web r1") },
        ...{ assignedAt: assignedAt ?? ago(9 * day + hour), assignedBy: people.admin.userId },
      })),
  );
  await db.insert(ingestHour).values(
    volumes.map(([host, at, kind, envelopes, payloadBytes]) => ({
      ...{ hostId: identityOf(host), kind, hour: new Date(at), envelopes, payloadBytes },
    })),
  );
};
