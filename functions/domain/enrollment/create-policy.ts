import type { Reenrollment } from "../../../drizzle/schema/enrollment.ts";
import { uuidv7 } from "../../../kit/entropy.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { insertPolicy, type PolicyRow } from "../../store/policies.ts";
import { type Origin, operatorActor, recordAudit } from "../audit/record.ts";
import type { Operator } from "../operator/operator.ts";
import { certificateTtlSecondsMax } from "./rules.ts";

/** A policy as an admin asks for it; every field decided, defaults applied. */
export interface PolicyDraft {
  name: string;
  description: string | null;
  allowedIdentityPrefixes: string[];
  certificateTtlSeconds: number;
  allowedPlatforms: string[];
  maxEnrollments: number;
  maxEnrollmentsPerHour: number;
  allowedSourceCidrs: string[];
  reenrollment: Reenrollment;
}

/** Creates an enrollment policy; a TTL above 30 days is capped. 409 `policy_name_taken`. */
export const createPolicy = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  operator: Operator,
  draft: PolicyDraft,
  origin: Origin,
): Promise<PolicyRow> =>
  db.transaction(async (tx) => {
    const policy = await insertPolicy(tx, {
      ...draft,
      id: uuidv7({ clock, entropy }),
      certificateTtlSeconds: Math.min(draft.certificateTtlSeconds, certificateTtlSecondsMax),
      createdAt: new Date(clock.now()),
      createdBy: operator.userId,
    });
    if (policy === undefined) throw new Problem("policy_name_taken");
    await recordAudit(
      tx,
      { clock, entropy },
      {
        actor: operatorActor(operator),
        action: "enrollment_policy.create",
        target: { type: "enrollment_policy", id: policy.id },
        outcome: "success",
        origin,
        details: {
          name: policy.name,
          allowed_identity_prefixes: policy.allowedIdentityPrefixes,
          certificate_ttl_seconds: policy.certificateTtlSeconds,
          allowed_platforms: policy.allowedPlatforms,
          max_enrollments: policy.maxEnrollments,
          max_enrollments_per_hour: policy.maxEnrollmentsPerHour,
          allowed_source_cidrs: policy.allowedSourceCidrs,
          reenrollment: policy.reenrollment,
        },
      },
    );
    return policy;
  });
