import { bigint, boolean, index, integer, pgTable, primaryKey, text, uuid } from "drizzle-orm/pg-core";
import { bytea, moment } from "./columns.ts";

/** Whether an identity that holds an unexpired active certificate may enroll again. */
export type Reenrollment = "deny" | "replace";

/** Who may enroll, as what, how many, and for how long a certificate lives. */
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
  createdAt: moment("created_at").notNull(),
  createdBy: uuid("created_by").notNull(),
  frozenAt: moment("frozen_at"),
});

/** A short-lived credential of one policy, stored as SHA-256. */
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
    lastUsedAt: moment("last_used_at"),
    lastUsedAddress: text("last_used_address"),
    expiresAt: moment("expires_at").notNull(),
    revokedAt: moment("revoked_at"),
    createdAt: moment("created_at").notNull(),
    createdBy: uuid("created_by").notNull(),
  },
  (table) => [index("bootstrap_token_policy").on(table.policyId)],
);

/** A place held under the limits while the signer runs; one that outlives 60 s counts no more. */
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
    /** A first enrollment counts under the policy's limits; a repeated one does not. */
    firstEnrollment: boolean("first_enrollment").notNull(),
    expiresAt: moment("expires_at").notNull(),
    /**
     * Drawn before the signer runs (E2), so that a certificate that was signed and never recorded can still be named: 128 random
     * bits, lowercase hex. An external signer chooses its own.
     */
    serialNumber: text("serial_number").notNull().default(""),
  },
  (table) => [index("enrollment_reservation_policy").on(table.policyId)],
);

/** Failed uses of tokens by remote address (IPv6: its /64), for the throttle. Older than 5 minutes is dead. */
export const enrollmentFailure = pgTable(
  "enrollment_failure",
  {
    id: uuid("id").primaryKey(),
    addressKey: text("address_key").notNull(),
    reason: text("reason").notNull(),
    occurredAt: moment("occurred_at").notNull(),
  },
  (table) => [index("enrollment_failure_address").on(table.addressKey, table.occurredAt)],
);

/** Refused uses of an address (IPv6: its /64) in one minute, for one reason: counted here, told to the audit log after it. */
export const enrollmentRefusal = pgTable(
  "enrollment_refusal",
  {
    addressKey: text("address_key").notNull(),
    minuteStartedAt: moment("minute_started_at").notNull(),
    reason: text("reason").notNull(),
    refusals: bigint("refusals", { mode: "number" }).notNull(),
    lastAt: moment("last_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.addressKey, table.minuteStartedAt, table.reason] }),
    index("enrollment_refusal_minute").on(table.minuteStartedAt),
  ],
);
