import type { Core } from "../../../core.ts";
import { getPolicy } from "../../../domain/enrollment/policies.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { PolicyView, policyView } from "./policy.ts";

/** `GET /v1/collector/enrollment-policies/{id}`: one policy. */
export const getPolicyRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/enrollment-policies/:id",
    operationId: "getEnrollmentPolicy",
    summary: "One enrollment policy",
    guard: scope(core, "audit"),
    params: IdParams,
    replies: { 200: { description: "The policy", schema: PolicyView } },
    problems: ["not_found"],
    handle: async ({ params }) => ({ status: 200, body: policyView(await getPolicy(core, params.id)) }),
  });
