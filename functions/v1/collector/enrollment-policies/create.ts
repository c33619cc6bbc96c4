import { PolicyDraftBody } from "../../../../proto/operator/policy-draft.ts";
import type { Core } from "../../../core.ts";
import { createPolicy } from "../../../domain/enrollment/policies.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { inCamelCase } from "../../../http/view-of.ts";
import { PolicyView, policyView } from "./policy.ts";

/** `POST /v1/collector/enrollment-policies`: creates an enrollment policy. */
export const createPolicyRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/enrollment-policies",
    operationId: "createEnrollmentPolicy",
    summary: "Create an enrollment policy",
    guard: scope(core, "admin"),
    body: PolicyDraftBody,
    bodyExample: {
      name: "web servers",
      allowed_identity_prefixes: ["spiffe://fleet.example/host/"],
      max_enrollments: 40,
    },
    replies: { 201: { description: "The policy; a TTL above 30 days is capped", schema: PolicyView } },
    problems: ["policy_name_taken"],
    handle: async ({ body, caller, origin }) => {
      return { status: 201, body: policyView(await createPolicy(core, caller, inCamelCase(body), origin)) };
    },
  });
