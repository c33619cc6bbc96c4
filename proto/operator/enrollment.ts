/** Enrollment as core reports it to `/access/enrollment` (docs/enroll.md). No view has the value of a token. */
import * as v from "valibot";
import { Id, IsoTimestamp, PageOf, TextOrNull, TimestampOrNull } from "../values.ts";
import { WorkloadTerms } from "./workload.ts";

/**
 * The states of a bootstrap token, in order of precedence. Only `active` enrolls: `policy_frozen` neither has expired nor was revoked,
 * but its policy enrolls no host any more.
 */
export const tokenStates = ["revoked", "expired", "policy_frozen", "exhausted", "active"] as const;

/** One of `tokenStates`. */
export type TokenState = (typeof tokenStates)[number];

/** The states of an enrollment policy. */
export const policyStates = ["active", "frozen"] as const;

/** One of `policyStates`. */
export type PolicyState = (typeof policyStates)[number];

const TokenCounts = v.strictObject(v.entriesFromList(tokenStates, v.number()));

/** An enrollment policy and its tokens by state. */
export const ListedPolicy = v.strictObject({
  id: Id,
  name: v.string(),
  description: TextOrNull,
  allowed_identity_prefixes: v.array(v.string()),
  certificate_ttl_seconds: v.number(),
  allowed_platforms: v.array(v.string()),
  /** First enrollments in all, and in any hour; 0 means unlimited. */
  max_enrollments: v.number(),
  max_enrollments_per_hour: v.number(),
  allowed_source_cidrs: v.array(v.string()),
  reenrollment: v.picklist(["deny", "replace"]),
  state: v.picklist(policyStates),
  /** First enrollments so far. */
  enrollment_count: v.number(),
  created_at: IsoTimestamp,
  created_by: v.string(),
  frozen_at: TimestampOrNull,
  labels: v.record(v.string(), v.string()),
  /** Which service account tokens enroll hosts under it; null for bootstrap tokens alone. */
  workload: v.nullable(WorkloadTerms),
  /** The email of `created_by`; null for a person whom the directory no longer has. */
  created_by_email: TextOrNull,
  tokens: TokenCounts,
});

/** An enrollment policy and its tokens by state. */
export type ListedPolicy = v.InferOutput<typeof ListedPolicy>;

/** Response of `GET /v1/collector/enrollment-policies`: one page, newest first. */
export const PolicyPage = v.strictObject({
  items: v.array(ListedPolicy),
  next_cursor: TextOrNull,
  /** The issuers that `workload` of a policy may name. */
  workload_issuers: v.array(v.string()),
});

/** Response of `GET /v1/collector/enrollment-policies`. */
export type PolicyPage = v.InferOutput<typeof PolicyPage>;

/** A bootstrap token of any policy, without its value. */
export const ListedToken = v.strictObject({
  id: Id,
  policy_id: Id,
  policy_name: v.string(),
  /** The first characters, which name it in the audit log too. */
  token_prefix: v.string(),
  description: TextOrNull,
  allowed_source_cidrs: v.array(v.string()),
  bound_device_id: TextOrNull,
  expires_at: IsoTimestamp,
  /** 0 means unlimited. */
  max_uses: v.number(),
  use_count: v.number(),
  last_used_at: TimestampOrNull,
  last_used_address: TextOrNull,
  state: v.picklist(tokenStates),
  created_at: IsoTimestamp,
  created_by: v.string(),
  created_by_email: TextOrNull,
});

/** A bootstrap token of any policy, without its value. */
export type ListedToken = v.InferOutput<typeof ListedToken>;

/** Response of `GET /v1/collector/tokens`: one page, newest first. */
export const TokenPage = PageOf(ListedToken);

/** Response of `GET /v1/collector/tokens`. */
export type TokenPage = v.InferOutput<typeof TokenPage>;

/** Enrollments that core rejected for one reason, under one policy; null: core knows none, or counted repeated refusals of an address. */
export const RefusalGroup = v.strictObject({
  reason: v.string(),
  policy_id: v.nullable(Id),
  policy_name: TextOrNull,
  /** Audit events `collector.enroll` with outcome failure. */
  events: v.number(),
  /** Refused requests that they stand for: repeated ones of an address share an event a minute. */
  refused: v.number(),
  last_at: IsoTimestamp,
  last_address: TextOrNull,
});

/** Enrollments that core rejected for one reason, under one policy. */
export type RefusalGroup = v.InferOutput<typeof RefusalGroup>;

/** Response of `GET /v1/collector/enrollment`: counts, and the refusals from `since` up to `generated_at`. */
export const EnrollmentReport = v.strictObject({
  generated_at: IsoTimestamp,
  policies: v.strictObject(v.entriesFromList(policyStates, v.number())),
  tokens: TokenCounts,
  /** A day before `generated_at`. */
  since: IsoTimestamp,
  /** Those with the most refused requests first. */
  refusals: v.array(RefusalGroup),
});

/** Response of `GET /v1/collector/enrollment`. */
export type EnrollmentReport = v.InferOutput<typeof EnrollmentReport>;
