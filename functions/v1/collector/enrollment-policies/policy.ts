import * as v from "valibot";
import { readCidr } from "../../../../kit/address.ts";
import { Labels } from "../../../../proto/labels.ts";
import type { ListedPolicy } from "../../../../proto/operator/enrollment.ts";
import { WorkloadTerms } from "../../../../proto/operator/workload.ts";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { PolicyRow } from "../../../store/enrollment/policies.ts";
import type { ListedPolicyRow } from "../../../store/enrollment/report.ts";
import { Count, Name, Prose } from "../../shapes.ts";

const prefixPattern =
  /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9._-]+(:\d{1,5})?\/(([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*\/)?$/;

/** An identity prefix: an absolute URI in lower-case scheme and host that ends in `/`, without query or fragment. */
export const IdentityPrefix = v.pipe(
  v.string("must be a URI"),
  v.maxLength(2000, "must be at most 2000 characters"),
  v.regex(
    prefixPattern,
    "must be an absolute URI with lower-case scheme and host that ends in / and has no query or fragment",
  ),
);

const PlatformRule = v.pipe(
  v.string("must be os or os/arch"),
  v.regex(/^[a-z0-9_]{1,32}(\/[a-z0-9_]{1,32})?$/, "must be os or os/arch, such as linux or linux/amd64"),
);

/** A network in CIDR notation, IPv4 or IPv6. */
export const Cidr = v.pipe(
  v.string("must be a CIDR"),
  v.maxLength(64, "must be a CIDR"),
  v.check((text) => readCidr(text) !== undefined, "must be a CIDR such as 10.0.0.0/8 or 2001:db8::/32"),
);

/** The source CIDRs of a policy or token; an empty list allows any address. */
export const Cidrs = v.optional(v.pipe(v.array(Cidr), v.maxLength(64, "must have at most 64 entries")), []);

/** Body of the creation of a policy (docs/enroll.md). */
export const PolicyDraftBody = v.strictObject({
  name: Name,
  description: v.optional(v.nullable(Prose(1000)), null),
  allowed_identity_prefixes: v.pipe(
    v.array(IdentityPrefix, "must be an array"),
    v.minLength(1, "must have at least one entry"),
    v.maxLength(32, "must have at most 32 entries"),
  ),
  certificate_ttl_seconds: v.optional(
    v.pipe(Count(300), v.description("above 2592000 (30 days) it is capped, and the response has the capped value")),
    1_814_400,
  ),
  allowed_platforms: v.optional(v.pipe(v.array(PlatformRule), v.maxLength(64, "must have at most 64 entries")), []),
  max_enrollments: v.optional(v.pipe(Count(), v.description("first enrollments in all; 0 means unlimited")), 0),
  max_enrollments_per_hour: v.optional(
    v.pipe(Count(), v.description("first enrollments in any hour; 0 means unlimited")),
    0,
  ),
  allowed_source_cidrs: Cidrs,
  reenrollment: v.optional(v.picklist(["deny", "replace"], "must be deny or replace"), "deny"),
  /** Of the hosts that the policy admits; they win over those that a host reports. */
  labels: v.optional(Labels, {}),
  /** Which service account tokens enroll hosts too (docs/enroll-kubernetes.md). */
  workload: v.optional(v.nullable(WorkloadTerms), null),
});

/** A policy in a response. */
export const PolicyView = v.strictObject({
  id: Id,
  name: v.string(),
  description: v.nullable(v.string()),
  allowed_identity_prefixes: v.array(v.string()),
  certificate_ttl_seconds: v.number(),
  allowed_platforms: v.array(v.string()),
  max_enrollments: v.number(),
  max_enrollments_per_hour: v.number(),
  allowed_source_cidrs: v.array(v.string()),
  reenrollment: v.picklist(["deny", "replace"]),
  state: v.picklist(["active", "frozen"]),
  enrollment_count: v.number(),
  created_at: IsoTimestamp,
  created_by: v.string(),
  frozen_at: v.nullable(IsoTimestamp),
  labels: v.record(v.string(), v.string()),
  workload: v.nullable(WorkloadTerms),
});

/** Returns the view of a row. */
export const policyView = (row: PolicyRow): v.InferOutput<typeof PolicyView> => ({
  id: row.id,
  name: row.name,
  description: row.description,
  allowed_identity_prefixes: row.allowedIdentityPrefixes,
  certificate_ttl_seconds: row.certificateTtlSeconds,
  allowed_platforms: row.allowedPlatforms,
  max_enrollments: row.maxEnrollments,
  max_enrollments_per_hour: row.maxEnrollmentsPerHour,
  allowed_source_cidrs: row.allowedSourceCidrs,
  reenrollment: row.reenrollment,
  state: row.frozenAt === null ? "active" : "frozen",
  enrollment_count: row.enrollmentCount,
  created_at: row.createdAt.toISOString(),
  created_by: row.createdBy,
  frozen_at: row.frozenAt?.toISOString() ?? null,
  labels: row.labels,
  workload: row.workload,
});

/** Returns the view of a policy with its tokens by state. */
export const listedPolicyView = (row: ListedPolicyRow): ListedPolicy => ({
  ...policyView(row),
  created_by_email: row.createdByEmail,
  tokens: row.tokens,
});
