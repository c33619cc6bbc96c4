import * as v from "valibot";
import type { ListedPolicy } from "../../../../proto/operator/enrollment.ts";
import { WorkloadTerms } from "../../../../proto/operator/workload.ts";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { PolicyRow } from "../../../store/enrollment/policies.ts";
import type { ListedPolicyRow } from "../../../store/enrollment/report.ts";

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
