import { createHash } from "node:crypto";
import { auditEvent } from "../../drizzle/schema/audit.ts";
import { certificate, collectorIdentity } from "../../drizzle/schema/certificate.ts";
import { collectorConfig, configAssignment } from "../../drizzle/schema/config.ts";
import { bootstrapToken, enrollmentPolicy } from "../../drizzle/schema/enrollment.ts";
import { collectorHealth } from "../../drizzle/schema/fleet.ts";
import { ingestHost } from "../../drizzle/schema/ingest.ts";
import { directorySync } from "../../drizzle/schema/operator.ts";
import type { Database } from "../../functions/store/database.ts";
import { uuidv7 } from "../../kit/entropy.ts";
import { createHosts, type Host } from "../fleet-sim/scenario/hosts.ts";
import { type Plan, type PlannedConfigs, simulationPlan } from "../fleet-sim/scenario/plan.ts";
import { createRandom, type Random } from "../fleet-sim/scenario/random.ts";
import { people } from "../lab/people.ts";

const dayMs = 86_400_000;
const minuteMs = 60_000;
const lifetimeMs = 21 * dayMs;
const queueBytesMax = 100 * 1024 * 1024;

/** The facts that pictures of the fleet need. */
export interface PicturedFleet {
  /** The time at which the fleet is in its state. */
  now: number;
  versionMin: string | null;
  /** A host with audit events. */
  identityId: string;
}

type Row<Table extends { $inferInsert: unknown }> = Table["$inferInsert"];

/** One host as rows of the tables. */
interface HostRows {
  identity: Row<typeof collectorIdentity>;
  certificates: Row<typeof certificate>[];
  health: Row<typeof collectorHealth> | undefined;
  lastEnvelopeAt: number | undefined;
  assignedHash: string | undefined;
}

/**
 * Writes a fleet of `count` hosts with the roles of `svc-fleet-sim` into an empty database: the same rows for the same count, on every
 * machine and at any time. Core's own rules derive the states.
 */
export const pictureFleet = async (db: Database, count: number): Promise<PicturedFleet> => {
  const plan = await simulationPlan({ scenario: "fleet-1000", seed: 7, durationSeconds: 3600, hosts: count });
  const now = plan.endsAt;
  const ids = createRandom("ids");
  const id = (at: number) => uuidv7({ clock: { now: () => at }, entropy: ids });
  const createdAt = new Date(now - 40 * dayMs);
  const createdBy = people.admin.userId;
  const [policyId, tokenId] = [id(createdAt.getTime()), id(createdAt.getTime())];
  const configs = Object.values(plan.configs).map((config) => ({ id: id(createdAt.getTime()), ...config }));
  const hosts = createHosts(plan).map((host) => ({ host, rows: describeHost(plan, host, { policyId, tokenId, id }) }));
  const shown = hosts.find(({ host }) => host.role === "config_broken");
  const rowsOf = <Item>(pick: (rows: HostRows) => Item | readonly Item[] | undefined): Item[] =>
    hosts.flatMap(({ rows }) => pick(rows) ?? []);

  await db.transaction(async (tx) => {
    await tx.insert(directorySync).values({
      syncs: 1,
      finishedAt: new Date(now - 4 * minuteMs),
      outcome: "synced",
      syncedAt: new Date(now - 4 * minuteMs),
      failures: 0,
      missingGroups: [],
    });
    await tx.insert(enrollmentPolicy).values({
      id: policyId,
      name: "fleet",
      allowedIdentityPrefixes: [plan.identityPrefix],
      certificateTtlSeconds: lifetimeMs / 1000,
      allowedPlatforms: [],
      maxEnrollments: 0,
      maxEnrollmentsPerHour: 0,
      allowedSourceCidrs: [],
      reenrollment: "deny",
      createdAt,
      createdBy,
    });
    await tx.insert(bootstrapToken).values({
      id: tokenId,
      policyId,
      tokenSha256: ids.bytes(32),
      tokenPrefix: "pictured",
      allowedSourceCidrs: [],
      maxUses: 0,
      expiresAt: createdAt,
      createdAt,
      createdBy,
    });
    await tx.insert(collectorConfig).values(
      configs.map(({ hash, ...config }) => ({
        ...config,
        configHash: hash,
        sizeBytes: config.yaml.length,
        createdAt,
        createdBy,
      })),
    );
    await tx.insert(collectorIdentity).values(rowsOf(({ identity }) => identity));
    await tx.insert(certificate).values(rowsOf(({ certificates }) => certificates));
    await tx.insert(collectorHealth).values(rowsOf(({ health }) => health));
    await tx
      .insert(ingestHost)
      .values(
        rowsOf(({ identity, lastEnvelopeAt }) =>
          lastEnvelopeAt === undefined ? [] : { hostId: identity.identity, lastEnvelopeAt: new Date(lastEnvelopeAt) },
        ),
      );
    await tx.insert(configAssignment).values(
      rowsOf(({ identity, assignedHash }) => {
        const config = configs.find(({ hash }) => hash === assignedHash);
        const assignedAt = new Date(now - 2 * dayMs);
        return config === undefined
          ? []
          : { id: id(now), identityId: identity.id, configId: config.id, assignedAt, assignedBy: createdBy };
      }),
    );
    if (shown) await tx.insert(auditEvent).values(historyOf(shown.rows, plan, id));
  });
  if (shown === undefined) throw new Error("no host has a broken config");
  return { now, versionMin: plan.versionMin, identityId: shown.rows.identity.id };
};

const describeHost = (
  { endsAt: now, configs }: Plan,
  host: Host,
  { policyId, tokenId, id }: { policyId: string; tokenId: string; id(at: number): string },
): HostRows => {
  const random = createRandom("pictured", host.index);
  const { role } = host;
  const enrolledAt = now - (role === "enrolling" ? random.between(1, 12) * minuteMs : random.between(22, 39) * dayMs);
  // Certificates are in the first half of their lifetime, after which a host renews, except for hosts that could not.
  const spent = { cert_expiring: 0.78, renewal_refused: 0.9, expired: 1.01 }[role as string] ?? random.fraction() * 0.5;
  const issuedAt = role === "enrolling" ? enrolledAt : now - spent * lifetimeMs - random.between(0, 6) * 3_600_000;
  const identityId = id(enrolledAt);
  const own = { identityId, status: role === "certificate_revoked" ? "revoked" : "active" } as const;
  const certificateOf = (at: number, more: Partial<Row<typeof certificate>>): Row<typeof certificate> => ({
    id: id(at),
    ...own,
    serialNumber: random.bytes(16).toHex(),
    fingerprintSha256: random.bytes(32),
    spkiSha256: random.bytes(32),
    certificatePem: "",
    chainPem: "",
    notBefore: new Date(at),
    notAfter: new Date(at + lifetimeMs),
    renewAfter: new Date(at + lifetimeMs / 2),
    issuedAt: new Date(at),
    ...more,
  });
  const inUse = certificateOf(issuedAt, {
    firstUsedAt: new Date(issuedAt),
    ...(own.status === "revoked" ? { revokedAt: new Date(now - 3 * 3_600_000) } : {}),
  });
  const successor = certificateOf(now - 5 * minuteMs, { predecessorId: inUse.id });
  const isRevoked = role === "identity_revoked" || role === "certificate_revoked";
  const hasNoHeartbeat = role === "enrolling" || role === "silent" || role === "forwards_only";
  const isDown = isRevoked || role === "down" || role === "clock_far" || role === "expired";
  const heartbeatAt = now - (isDown ? random.between(4, 9 * 60) * minuteMs : random.between(1, 59) * 1000);
  const sentAt = (isDown ? heartbeatAt : now) - random.between(1, 20) * 1000;
  return {
    identity: {
      id: identityId,
      identity: host.identity,
      deviceId: host.deviceId,
      policyId,
      tokenId,
      hostname: host.hostname,
      platform: host.platform,
      collectorVersion: host.version,
      enrolledAt: new Date(enrolledAt),
      ...(role === "identity_revoked" ? { revokedAt: new Date(now - 3 * 3_600_000) } : {}),
      ...(role === "clock_far" || role === "proof_failed"
        ? {
            lastAuthFailureAt: new Date(now - 40_000),
            lastAuthFailureReason: role === "clock_far" ? "clock_skew" : "bad_signature",
          }
        : {}),
    },
    certificates: role === "successor_waiting" ? [inUse, successor] : [inUse],
    health: hasNoHeartbeat ? undefined : healthOf(host, { inUse, heartbeatAt, configs, random }),
    lastEnvelopeAt: ["enrolling", "silent", "never_forwarded"].includes(role) ? undefined : sentAt,
    assignedHash: host.management === "assigned" ? configs.current.hash : undefined,
  };
};

const healthOf = (
  { role, hostname, platform, version, management }: Host,
  facts: { inUse: Row<typeof certificate>; heartbeatAt: number; configs: PlannedConfigs; random: Random },
): Row<typeof collectorHealth> => {
  const { inUse, heartbeatAt, configs, random } = facts;
  const { current, previous, edited } = configs;
  const running = role === "drifted" ? edited : role === "rolled_back" || role === "config_broken" ? previous : current;
  const isGrowing = role === "queue_growing" || role === "queue_dropping";
  const fill = isGrowing ? 0.82 + random.fraction() * 0.17 : random.fraction() ** 6 * 0.3;
  const bytes = Math.floor(fill * queueBytesMax);
  const hasFailed = role === "renewal_refused";
  return {
    identityId: inUse.identityId,
    certificateId: inUse.id,
    lastHeartbeatAt: new Date(heartbeatAt),
    bootId: random.bytes(8).toHex(),
    collectorVersion: version,
    collectorCommit: createHash("sha256").update(version).digest("hex").slice(0, 12),
    hostname,
    platform,
    startedAt: new Date(heartbeatAt - random.between(1, 20) * dayMs),
    configValid: role !== "config_broken" && role !== "config_unreadable",
    configErrors: role === "config_broken" ? ["sources[1].interval_seconds: must be a whole number"] : [],
    runningConfigHash: role === "config_unreadable" ? null : running.hash,
    desiredConfigHash: management === "none" ? null : current.hash,
    lastKnownGoodConfigHash: running === edited ? current.hash : running.hash,
    queueRecords: Math.floor(bytes / 900),
    queueBytes: bytes,
    queueBytesMax,
    queueOldestRecordAgeSeconds: isGrowing ? random.between(40, 300) * 60 : random.between(0, 4),
    droppedRecordsTotal: role === "queue_dropping" ? random.between(800, 90_000) : 0,
    droppedSincePrevious: role === "queue_dropping",
    queueAtRisk: isGrowing,
    forwarderConnected: !isGrowing,
    renewalStatus: hasFailed ? "failed" : role === "cert_expiring" ? "retrying" : "ok",
    renewalLastError: hasFailed
      ? "certificate_revoked: enroll again"
      : role === "cert_expiring"
        ? "core answered 503 service_unavailable"
        : null,
  };
};

/** The audit events of a host that rejected the config that it was assigned. */
const historyOf = (
  { identity }: HostRows,
  { endsAt: now, configs }: Plan,
  id: (at: number) => string,
): Row<typeof auditEvent>[] => {
  const ada = { type: "operator", id: people.admin.userId, display: people.admin.displayName } as const;
  const self = { type: "collector", id: identity.id, display: identity.deviceId } as const;
  const events = [
    { at: identity.enrolledAt.getTime(), actor: self, action: "collector.enroll", details: { policy: "fleet" } },
    { at: now - 11 * dayMs, actor: self, action: "certificate.renew", details: { status: "active" } },
    {
      at: now - 2 * dayMs,
      actor: ada,
      action: "config.assign",
      details: { name: configs.current.name, config_hash: configs.current.hash },
    },
  ];
  return events.map(({ at, actor, action, details }) => ({
    id: id(at),
    occurredAt: new Date(at),
    actorType: actor.type,
    actorId: actor.id,
    actorDisplay: actor.display,
    action,
    targetType: "identity",
    targetId: identity.id,
    outcome: "success",
    details,
  }));
};
