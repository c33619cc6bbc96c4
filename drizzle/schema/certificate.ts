import { sql } from "drizzle-orm";
import {
  type AnyPgColumn,
  bigint,
  check,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { Labels } from "../../proto/labels.ts";
import type { ProofPurpose } from "../../proto/management/proof.ts";
import { bytea, timestamp } from "./columns.ts";
import { type Attestation, bootstrapToken, enrollmentPolicy } from "./enrollment.ts";

/** The stored statuses; `expired` and `unknown` are derived, never stored. */
export type StoredCertificateStatus = "active" | "replaced" | "revoked";

/** The id of the label set without labels, which always exists. */
const noLabels = 0;

/**
 * Every set of labels that a host has, once: hosts refer to a set by a number, so that their rows stay narrow, and a filter by a label
 * decides once for each set instead of for each host. `drizzle/sql/label-sets.sql` writes it; a job deletes sets that no host has any more.
 */
export const labelSet = pgTable(
  "label_set",
  {
    id: integer("id").primaryKey().generatedByDefaultAsIdentity(),
    /** Of the text of `labels`, which is the same for equal sets. */
    sha256: bytea("sha256").notNull().unique("label_set_sha256"),
    labels: jsonb("labels").$type<Labels>().notNull(),
  },
  (table) => [
    index("label_set_labels").using("gin", sql`${table.labels} jsonb_path_ops`),
    check(
      "label_set_none",
      sql`(${table.id} = ${sql.raw(String(noLabels))}) = (${table.labels} = '{}'::jsonb)`,
    ),
  ],
);

/** A managed host. */
export const collectorIdentity = pgTable(
  "collector_identity",
  {
    id: uuid("id").primaryKey(),
    identity: text("identity").notNull().unique("collector_identity_identity"),
    deviceId: text("device_id").notNull(),
    policyId: uuid("policy_id")
      .notNull()
      .references(() => enrollmentPolicy.id),
    tokenId: uuid("token_id")
      .notNull()
      .references(() => bootstrapToken.id),
    hostname: text("hostname"),
    platform: text("platform").notNull(),
    collectorVersion: text("collector_version").notNull(),
    enrolledAt: timestamp("enrolled_at").notNull(),
    revokedAt: timestamp("revoked_at"),
    lastAuthFailureAt: timestamp("last_auth_failure_at"),
    lastAuthFailureReason: text("last_auth_failure_reason"),
    /** From the newest heartbeat, without those of the policy; null for none. */
    reportedLabels: jsonb("reported_labels").$type<Labels>(),
    /**
     * The labels with those of the policy and the attestation; a trigger fills it in. No foreign key: `noLabels` would be a lock that all
     * enrollments share.
     */
    labelSetId: integer("label_set_id").notNull().default(noLabels),
    /** The claims of the service account token that the host enrolled with last; null after a bootstrap token. */
    attestation: jsonb("attestation").$type<Attestation>(),
  },
  (table) => [
    index("collector_identity_policy").on(table.policyId, table.enrolledAt),
    index("collector_identity_enrolled").on(table.enrolledAt),
  ],
);

/**
 * A certificate that core issued. A renewed certificate stays `active` until its successor is first used; then it is `replaced`. So an
 * identity has at most one certificate in use and at most one unused successor.
 */
export const certificate = pgTable(
  "certificate",
  {
    id: uuid("id").primaryKey(),
    identityId: uuid("identity_id")
      .notNull()
      .references(() => collectorIdentity.id),
    predecessorId: uuid("predecessor_id").references((): AnyPgColumn => certificate.id),
    /** The bootstrap token that an enrolled certificate was issued for; null for a renewed one. */
    tokenId: uuid("token_id").references(() => bootstrapToken.id),
    status: text("status").$type<StoredCertificateStatus>().notNull(),
    /** Lowercase hex. Unique per issuer only: an external CA, or the next CA, may count from 1. */
    serialNumber: text("serial_number").notNull(),
    fingerprintSha256: bytea("fingerprint_sha256").notNull().unique("certificate_fingerprint"),
    spkiSha256: bytea("spki_sha256").notNull(),
    certificatePem: text("certificate_pem").notNull(),
    chainPem: text("chain_pem").notNull(),
    notBefore: timestamp("not_before").notNull(),
    notAfter: timestamp("not_after").notNull(),
    renewAfter: timestamp("renew_after").notNull(),
    issuedAt: timestamp("issued_at").notNull(),
    firstUsedAt: timestamp("first_used_at"),
    replacedAt: timestamp("replaced_at"),
    revokedAt: timestamp("revoked_at"),
    /** The transaction that last wrote it while it was not `active`; a trigger fills it in. Null while it is. */
    endedXid: bigint("ended_xid", { mode: "bigint" }),
  },
  (table) => [
    index("certificate_identity").on(table.identityId, table.issuedAt),
    index("certificate_token_key").on(table.tokenId, table.spkiSha256),
    uniqueIndex("certificate_one_successor")
      .on(table.predecessorId)
      .where(sql`${table.status} = 'active'`),
    index("certificate_ended").on(table.endedXid).where(sql`${table.endedXid} is not null`),
  ],
);

/** Replay protection and rate limit: the newest `sent_at` and the newest requests of one certificate and purpose. */
export const proofUse = pgTable(
  "proof_use",
  {
    certificateId: uuid("certificate_id")
      .notNull()
      .references(() => certificate.id),
    purpose: text("purpose").$type<ProofPurpose>().notNull(),
    lastSentAt: timestamp("last_sent_at").notNull(),
    /** When the newest accepted requests came, at most six, oldest first. */
    recentAt: timestamp("recent_at").array().notNull(),
  },
  (table) => [primaryKey({ columns: [table.certificateId, table.purpose] })],
);
