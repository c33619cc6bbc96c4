import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import type { Labels } from "../../proto/labels.ts";
import type { WorkloadTerms } from "../../proto/operator/workload.ts";
import { bytea, timestamp } from "./columns.ts";

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
export const enrollmentPolicy = pgTable("enrollment_policy", {
  id: uuid("id").primaryKey(),
  name: text("name").notNull().unique("enrollment_policy_name"),
  description: text("description"),
  allowedIdentityPrefixes: text("allowed_identity_prefixes").array().notNull(),
  certificateTtlSeconds: integer("certificate_ttl_seconds").notNull(),
  allowedPlatforms: text("allowed_platforms").array().notNull(),
  maxEnrollments: bigint("max_enrollments", { mode: "number" }).notNull(),
  maxEnrollmentsPerHour: bigint("max_enrollments_per_hour", { mode: "number" }).notNull(),
  allowedSourceCidrs: text("allowed_source_cidrs").array().notNull(),
  reenrollment: text("reenrollment").$type<Reenrollment>().notNull(),
  enrollmentCount: bigint("enrollment_count", { mode: "number" }).notNull().default(0),
  createdAt: timestamp("created_at").notNull(),
  createdBy: uuid("created_by").notNull(),
  frozenAt: timestamp("frozen_at"),
  /** Of the hosts that it admits; they win over those that a host reports. */
  labels: jsonb("labels").$type<Labels>().notNull().default({}),
  /** Which service account tokens enroll hosts under it; null for bootstrap tokens alone. */
  workload: jsonb("workload").$type<WorkloadTerms>(),
});

/** A bootstrap token of one policy, or a service account token that one admitted, stored as its SHA-256. */
export const bootstrapToken = pgTable(
  "bootstrap_token",
  {
    id: uuid("id").primaryKey(),
    policyId: uuid("policy_id")
      .notNull()
      .references(() => enrollmentPolicy.id),
    tokenSha256: bytea("token_sha256").notNull().unique("bootstrap_token_sha256"),
    tokenPrefix: text("token_prefix").notNull(),
    description: text("description"),
    allowedSourceCidrs: text("allowed_source_cidrs").array().notNull(),
    boundDeviceId: text("bound_device_id"),
    maxUses: bigint("max_uses", { mode: "number" }).notNull(),
    useCount: bigint("use_count", { mode: "number" }).notNull().default(0),
    lastUsedAt: timestamp("last_used_at"),
    lastUsedAddress: text("last_used_address"),
    expiresAt: timestamp("expires_at").notNull(),
    revokedAt: timestamp("revoked_at"),
    createdAt: timestamp("created_at").notNull(),
    createdBy: uuid("created_by").notNull(),
    /** The claims of a service account token, which enrolls one host; null for a bootstrap token. */
    attestation: jsonb("attestation").$type<Attestation>(),
  },
  (table) => [
    index("bootstrap_token_policy").on(table.policyId),
    index("bootstrap_token_unused")
      .on(table.expiresAt)
      .where(sql`${table.attestation} is not null and ${table.useCount} = 0`),
  ],
);

/** A reservation: a use of a token that counts under the limits while the signer runs, and expires after 60 s. */
export const enrollmentReservation = pgTable(
  "enrollment_reservation",
  {
    id: uuid("id").primaryKey(),
    policyId: uuid("policy_id")
      .notNull()
      .references(() => enrollmentPolicy.id),
    tokenId: uuid("token_id")
      .notNull()
      .references(() => bootstrapToken.id),
    identity: text("identity").notNull().unique("enrollment_reservation_identity"),
    spkiSha256: bytea("spki_sha256").notNull(),
    /** A first enrollment counts under the limits of the policy; a repeated one does not. */
    firstEnrollment: boolean("first_enrollment").notNull(),
    expiresAt: timestamp("expires_at").notNull(),
    /**
     * 128 random bits, lowercase hex, drawn before the signer runs (E2): identifies a certificate that was signed and never recorded.
     * An external signer chooses its own.
     */
    serialNumber: text("serial_number").notNull().default(""),
  },
  (table) => [index("enrollment_reservation_policy").on(table.policyId)],
);

/** Failed uses of tokens by remote address (IPv6: its /64), for the throttle. Rows older than 5 minutes do not count. */
export const enrollmentFailure = pgTable(
  "enrollment_failure",
  {
    id: uuid("id").primaryKey(),
    addressKey: text("address_key").notNull(),
    reason: text("reason").notNull(),
    occurredAt: timestamp("occurred_at").notNull(),
  },
  (table) => [index("enrollment_failure_address").on(table.addressKey, table.occurredAt)],
);

/** Rejected enrollments of an address (IPv6: its /64) in one minute, for one reason. Becomes an audit event after the minute. */
export const enrollmentRefusal = pgTable(
  "enrollment_refusal",
  {
    addressKey: text("address_key").notNull(),
    minuteStartedAt: timestamp("minute_started_at").notNull(),
    reason: text("reason").notNull(),
    refusals: bigint("refusals", { mode: "number" }).notNull(),
    lastAt: timestamp("last_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.addressKey, table.minuteStartedAt, table.reason] }),
    index("enrollment_refusal_minute").on(table.minuteStartedAt),
  ],
);
