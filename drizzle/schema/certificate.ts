import { sql } from "drizzle-orm";
import {
  type AnyPgColumn,
  bigint,
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
import { bytea, table, timestamp } from "./columns.ts";
import { type Attestation, bootstrapToken, enrollmentPolicy } from "./enrollment.ts";

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
