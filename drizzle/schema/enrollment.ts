import { sql } from "drizzle-orm";
import { type AnyPgColumn, check, index, jsonb, uniqueIndex } from "drizzle-orm/pg-core";
import type { Labels } from "#proto/labels.ts";
import type { ProofPurpose } from "#proto/management/proof.ts";
import type { WorkloadTerms } from "#proto/operator/workload.ts";
import type { AgentKind } from "#proto/values.ts";
import {
  boolean,
  bytea,
  counter,
  integer,
  nullable,
  primaryKeyOf,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/** Whether an identity with an unexpired active certificate may enroll again. */
export type Reenrollment = "deny" | "replace";

/** Whom an issuer's token names, and what the rule of the policy that admitted it grants. */
export interface Attestation {
  issuer: string;
  subject: string;
  /** Those of the pod and its node, and those that the policy's rules name. */
  claims: Readonly<Record<string, string>>;
  /** The labels of the rule, which win over those of the policy. */
  labels: Labels;
}

/** An enrollment policy: which identities may enroll, from where, how many, and the lifetime of their certificates. */
export const enrollmentPolicy = table("enrollment_policy", {
  id: uuid().primaryKey(),
  name: text().unique("enrollment_policy_name"),
  description: nullable.text(),
  allowedIdentityPrefixes: text().array().notNull(),
  certificateTtlSeconds: integer(),
  allowedPlatforms: text().array().notNull(),
  maxEnrollments: counter(),
  maxEnrollmentsPerHour: counter(),
  allowedSourceCidrs: text().array().notNull(),
  reenrollment: text().$type<Reenrollment>(),
  enrollmentCount: counter().default(0),
  createdAt: timestamp(),
  createdBy: uuid(),
  frozenAt: nullable.timestamp(),
  /** Of the hosts that it admits; they win over those that a host reports. */
  labels: jsonb().$type<Labels>().notNull().default({}),
  /** Which service account tokens enroll hosts under it; null for bootstrap tokens alone. */
  workload: jsonb().$type<WorkloadTerms>(),
});

/** A bootstrap token of one policy, or a service account token that one admitted, stored as its SHA-256. */
export const bootstrapToken = table(
  "bootstrap_token",
  {
    id: uuid().primaryKey(),
    policyId: uuid().references(() => enrollmentPolicy.id),
    tokenSha256: bytea().unique("bootstrap_token_sha256"),
    tokenPrefix: text(),
    description: nullable.text(),
    allowedSourceCidrs: text().array().notNull(),
    boundDeviceId: nullable.text(),
    maxUses: counter(),
    useCount: counter().default(0),
    lastUsedAt: nullable.timestamp(),
    lastUsedAddress: nullable.text(),
    expiresAt: timestamp(),
    revokedAt: nullable.timestamp(),
    createdAt: timestamp(),
    createdBy: uuid(),
    /** The claims of a service account token, which enrolls one host; null for a bootstrap token. */
    attestation: jsonb().$type<Attestation>(),
  },
  (columns) => [
    index("bootstrap_token_policy").on(columns.policyId),
    index("bootstrap_token_unused")
      .on(columns.expiresAt)
      .where(sql`${columns.attestation} is not null and ${columns.useCount} = 0`),
  ],
);

/** A reservation: a use of a token that counts under the limits while the signer runs, and expires after 60 s. */
export const enrollmentReservation = table(
  "enrollment_reservation",
  {
    id: uuid().primaryKey(),
    policyId: uuid().references(() => enrollmentPolicy.id),
    tokenId: uuid().references(() => bootstrapToken.id),
    identity: text().unique("enrollment_reservation_identity"),
    spkiSha256: bytea(),
    /** A first enrollment counts under the limits of the policy; a repeated one does not. */
    firstEnrollment: boolean(),
    expiresAt: timestamp(),
    /**
     * 128 random bits, lowercase hex, drawn before the signer runs (E2): identifies a certificate that was signed and never recorded.
     * An external signer chooses its own.
     */
    serialNumber: text().default(""),
  },
  (columns) => [index("enrollment_reservation_policy").on(columns.policyId)],
);

/** Failed uses of tokens by remote address (IPv6: its /64), for the throttle. Rows older than 5 minutes do not count. */
export const enrollmentFailure = table(
  "enrollment_failure",
  {
    id: uuid().primaryKey(),
    addressKey: text(),
    reason: text(),
    occurredAt: timestamp(),
  },
  (columns) => [index("enrollment_failure_address").on(columns.addressKey, columns.occurredAt)],
);

/** Rejected enrollments of an address (IPv6: its /64) in one minute, for one reason. Becomes an audit event after the minute. */
export const enrollmentRefusal = table(
  "enrollment_refusal",
  {
    addressKey: text(),
    minuteStartedAt: timestamp(),
    reason: text(),
    refusals: counter(),
    lastAt: timestamp(),
  },
  (columns) => [
    primaryKeyOf(columns.addressKey, columns.minuteStartedAt, columns.reason),
    index("enrollment_refusal_minute").on(columns.minuteStartedAt),
  ],
);

/** The stored statuses; `expired` and `unknown` are derived, never stored. */
export type StoredCertificateStatus = "active" | "replaced" | "revoked";

/** The id of the label set without labels, which always exists. */
const noLabels = 0;

/**
 * Every set of labels that a host has, once: hosts refer to a set by a number, so that their rows stay narrow, and a filter by a label
 * decides once for each set instead of for each host. `drizzle/sql/label-sets.sql` writes it; a job deletes sets that no host has any more.
 */
export const labelSet = table(
  "label_set",
  {
    id: integer().primaryKey().generatedByDefaultAsIdentity(),
    /** Of the text of `labels`, which is the same for equal sets. */
    sha256: bytea().unique("label_set_sha256"),
    labels: jsonb().$type<Labels>().notNull(),
  },
  (columns) => [
    index("label_set_labels").using("gin", sql`${columns.labels} jsonb_path_ops`),
    check(
      "label_set_none",
      sql`(${columns.id} = ${sql.raw(String(noLabels))}) = (${columns.labels} = '{}'::jsonb)`,
    ),
  ],
);

/** A managed host. */
export const collectorIdentity = table(
  "collector_identity",
  {
    id: uuid().primaryKey(),
    identity: text().unique("collector_identity_identity"),
    deviceId: text(),
    policyId: uuid().references(() => enrollmentPolicy.id),
    tokenId: uuid().references(() => bootstrapToken.id),
    hostname: nullable.text(),
    platform: text(),
    collectorVersion: text(),
    enrolledAt: timestamp(),
    revokedAt: nullable.timestamp(),
    lastAuthFailureAt: nullable.timestamp(),
    lastAuthFailureReason: nullable.text(),
    /** From the newest heartbeat, without those of the policy; null for none. */
    reportedLabels: jsonb().$type<Labels>(),
    /**
     * The labels with those of the policy and the attestation; a trigger fills it in. No foreign key: `noLabels` would be a lock that all
     * enrollments share.
     */
    labelSetId: integer().default(noLabels),
    /** The claims of the service account token that the host enrolled with last; null after a bootstrap token. */
    attestation: jsonb().$type<Attestation>(),
    /** Fixed at the first enrollment. */
    agent: text().$type<AgentKind>().default("svc-collector"),
  },
  (columns) => [
    index("collector_identity_policy").on(columns.policyId, columns.enrolledAt),
    index("collector_identity_enrolled").on(columns.enrolledAt),
  ],
);

/**
 * A certificate that core issued. A renewed certificate stays `active` until its successor is first used; then it is `replaced`. So an
 * identity has at most one certificate in use and at most one unused successor.
 */
export const certificate = table(
  "certificate",
  {
    id: uuid().primaryKey(),
    identityId: uuid().references(() => collectorIdentity.id),
    predecessorId: nullable.uuid().references((): AnyPgColumn => certificate.id),
    /** The bootstrap token that an enrolled certificate was issued for; null for a renewed one. */
    tokenId: nullable.uuid().references(() => bootstrapToken.id),
    status: text().$type<StoredCertificateStatus>(),
    /** Lowercase hex. Unique per issuer only: an external CA, or the next CA, may count from 1. */
    serialNumber: text(),
    fingerprintSha256: bytea().unique("certificate_fingerprint"),
    spkiSha256: bytea(),
    certificatePem: text(),
    chainPem: text(),
    notBefore: timestamp(),
    notAfter: timestamp(),
    renewAfter: timestamp(),
    issuedAt: timestamp(),
    firstUsedAt: nullable.timestamp(),
    replacedAt: nullable.timestamp(),
    revokedAt: nullable.timestamp(),
    /** The transaction that last wrote it while it was not `active`; a trigger fills it in. Null while it is. */
    endedXid: nullable.bigint(),
  },
  (columns) => [
    index("certificate_identity").on(columns.identityId, columns.issuedAt),
    index("certificate_token_key").on(columns.tokenId, columns.spkiSha256),
    uniqueIndex("certificate_one_successor")
      .on(columns.predecessorId)
      .where(sql`${columns.status} = 'active'`),
    index("certificate_ended").on(columns.endedXid).where(sql`${columns.endedXid} is not null`),
  ],
);

/** Replay protection and rate limit: the newest `sent_at` and the newest requests of one certificate and purpose. */
export const proofUse = table(
  "proof_use",
  {
    certificateId: uuid().references(() => certificate.id),
    purpose: text().$type<ProofPurpose>(),
    lastSentAt: timestamp(),
    /** When the newest accepted requests came, at most six, oldest first. */
    recentAt: timestamp().array().notNull(),
  },
  (columns) => [primaryKeyOf(columns.certificateId, columns.purpose)],
);
