import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { lockPolicy, type PolicyRow, updatePolicyFrozen } from "../../store/policies.ts";
import { type Origin, operatorActor, recordAudit } from "../audit/record.ts";
import type { Operator } from "../operator/operator.ts";

/** Freezes a policy: final, idempotent, and its tokens stop enrolling with the commit. 404 `not_found`. */
export const freezePolicy = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  operator: Operator,
  { policyId, reasonCode }: { policyId: string; reasonCode: string | null },
  origin: Origin,
): Promise<PolicyRow> =>
  db.transaction(async (tx) => {
    const policy = await lockPolicy(tx, policyId);
    if (policy === undefined) throw new Problem("not_found");
    if (policy.frozenAt !== null) return policy;
    const frozenAt = new Date(clock.now());
    await updatePolicyFrozen(tx, policyId, frozenAt);
    await recordAudit(
      tx,
      { clock, entropy },
      {
        actor: operatorActor(operator),
        action: "enrollment_policy.freeze",
        target: { type: "enrollment_policy", id: policyId },
        outcome: "success",
        reasonCode,
        origin,
      },
    );
    return { ...policy, frozenAt };
  });
