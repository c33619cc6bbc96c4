import type { Core } from "../../../core.ts";
import { freezePolicy } from "../../../domain/enrollment/policies.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams, ReasonBody } from "../../shapes.ts";
import { PolicyView, policyView } from "./policy.ts";

/** `POST /v1/collector/enrollment-policies/{id}/freeze`: ends enrollment under the policy. */
export const freezePolicyRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/enrollment-policies/:id/freeze",
    operationId: "freezeEnrollmentPolicy",
    summary: "Freeze an enrollment policy; final and idempotent, renewals continue",
    guard: scope(core, "admin"),
    params: IdParams,
    body: ReasonBody,
    bodyAbsentAs: {},
    bodyExample: { reason_code: "rollout_done" },
    replies: { 200: { description: "The frozen policy", schema: PolicyView } },
    problems: ["not_found"],
    handle: async ({ params, body, caller, origin }) => {
      const change = { policyId: params.id, reasonCode: body.reason_code ?? null };
      return { status: 200, body: policyView(await freezePolicy(core, caller, change, origin)) };
    },
  });
