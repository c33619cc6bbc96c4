import { sql } from "drizzle-orm";
import {
  type AnyPgColumn,
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  primaryKey,
  text,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { Labels } from "#proto/labels.ts";
import type { ProofPurpose } from "#proto/management/proof.ts";
import type { WorkloadTerms } from "#proto/operator/workload.ts";
import { bytea, counter, table, timestamp } from "./columns.ts";

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
  name: text().notNull().unique("enrollment_policy_name"),
  description: text(),
  allowedIdentityPrefixes: text().array().notNull(),
  certificateTtlSeconds: integer().notNull(),
  allowedPlatforms: text().array().notNull(),
  maxEnrollments: counter().notNull(),
  maxEnrollmentsPerHour: counter().notNull(),
  allowedSourceCidrs: text().array().notNull(),
  reenrollment: text().$type<Reenrollment>().notNull(),
  enrollmentCount: counter().notNull().default(0),
  createdAt: timestamp().notNull(),
  createdBy: uuid().notNull(),
  frozenAt: timestamp(),
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
    policyId: uuid()
      .notNull()
      .references(() => enrollmentPolicy.id),
    tokenSha256: bytea().notNull().unique("bootstrap_token_sha256"),
    tokenPrefix: text().notNull(),
    description: text(),
    allowedSourceCidrs: text().array().notNull(),
    boundDeviceId: text(),
    maxUses: counter().notNull(),
    useCount: counter().notNull().default(0),
    lastUsedAt: timestamp(),
    lastUsedAddress: text(),
    expiresAt: timestamp().notNull(),
    revokedAt: timestamp(),
    createdAt: timestamp().notNull(),
    createdBy: uuid().notNull(),
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
    policyId: uuid()
      .notNull()
      .references(() => enrollmentPolicy.id),
    tokenId: uuid()
      .notNull()
      .references(() => bootstrapToken.id),
    identity: text().notNull().unique("enrollment_reservation_identity"),
    spkiSha256: bytea().notNull(),
    /** A first enrollment counts under the limits of the policy; a repeated one does not. */
    firstEnrollment: boolean().notNull(),
    expiresAt: timestamp().notNull(),
    /**
     * 128 random bits, lowercase hex, drawn before the signer runs (E2): identifies a certificate that was signed and never recorded.
     * An external signer chooses its own.
     */
    serialNumber: text().notNull().default(""),
  },
  (columns) => [index("enrollment_reservation_policy").on(columns.policyId)],
);

/** Failed uses of tokens by remote address (IPv6: its /64), for the throttle. Rows older than 5 minutes do not count. */
export const enrollmentFailure = table(
  "enrollment_failure",
  {
    id: uuid().primaryKey(),
    addressKey: text().notNull(),
    reason: text().notNull(),
    occurredAt: timestamp().notNull(),
  },
  (columns) => [index("enrollment_failure_address").on(columns.addressKey, columns.occurredAt)],
);

/** Rejected enrollments of an address (IPv6: its /64) in one minute, for one reason. Becomes an audit event after the minute. */
export const enrollmentRefusal = table(
  "enrollment_refusal",
  {
    addressKey: text().notNull(),
    minuteStartedAt: timestamp().notNull(),
    reason: text().notNull(),
    refusals: counter().notNull(),
    lastAt: timestamp().notNull(),
  },
  (columns) => [
    primaryKey({ columns: [columns.addressKey, columns.minuteStartedAt, columns.reason] }),
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
    sha256: bytea().notNull().unique("label_set_sha256"),
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
    identity: text().notNull().unique("collector_identity_identity"),
    deviceId: text().notNull(),
    policyId: uuid()
      .notNull()
      .references(() => enrollmentPolicy.id),
    tokenId: uuid()
      .notNull()
      .references(() => bootstrapToken.id),
    hostname: text(),
    platform: text().notNull(),
    collectorVersion: text().notNull(),
    enrolledAt: timestamp().notNull(),
    revokedAt: timestamp(),
    lastAuthFailureAt: timestamp(),
    lastAuthFailureReason: text(),
    /** From the newest heartbeat, without those of the policy; null for none. */
    reportedLabels: jsonb().$type<Labels>(),
    /**
     * The labels with those of the policy and the attestation; a trigger fills it in. No foreign key: `noLabels` would be a lock that all
     * enrollments share.
     */
    labelSetId: integer().notNull().default(noLabels),
    /** The claims of the service account token that the host enrolled with last; null after a bootstrap token. */
    attestation: jsonb().$type<Attestation>(),
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
    identityId: uuid()
      .notNull()
      .references(() => collectorIdentity.id),
    predecessorId: uuid().references((): AnyPgColumn => certificate.id),
    /** The bootstrap token that an enrolled certificate was issued for; null for a renewed one. */
    tokenId: uuid().references(() => bootstrapToken.id),
    status: text().$type<StoredCertificateStatus>().notNull(),
    /** Lowercase hex. Unique per issuer only: an external CA, or the next CA, may count from 1. */
    serialNumber: text().notNull(),
    fingerprintSha256: bytea().notNull().unique("certificate_fingerprint"),
    spkiSha256: bytea().notNull(),
    certificatePem: text().notNull(),
    chainPem: text().notNull(),
    notBefore: timestamp().notNull(),
    notAfter: timestamp().notNull(),
    renewAfter: timestamp().notNull(),
    issuedAt: timestamp().notNull(),
    firstUsedAt: timestamp(),
    replacedAt: timestamp(),
    revokedAt: timestamp(),
    /** The transaction that last wrote it while it was not `active`; a trigger fills it in. Null while it is. */
    endedXid: bigint({ mode: "bigint" }),
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
    certificateId: uuid()
      .notNull()
      .references(() => certificate.id),
    purpose: text().$type<ProofPurpose>().notNull(),
    lastSentAt: timestamp().notNull(),
    /** When the newest accepted requests came, at most six, oldest first. */
    recentAt: timestamp().array().notNull(),
  },
  (columns) => [primaryKey({ columns: [columns.certificateId, columns.purpose] })],
);
