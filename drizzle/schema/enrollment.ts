import { sql } from "drizzle-orm";
import { boolean, index, integer, jsonb, primaryKey, text, uuid } from "drizzle-orm/pg-core";
import type { Labels } from "#proto/labels.ts";
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
