import * as v from "valibot";
import type { Core } from "../../../core.ts";
import { browsePolicies } from "../../../domain/enrollment/policies.ts";
import { scope } from "../../../http/guards.ts";
import { createList, ListView, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import { PolicyView, policyView } from "./policy.ts";

/** `GET /v1/collector/enrollment-policies`: every policy, newest first. */
export const listPoliciesRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "enrollment-policies");
  return route({
    method: "GET",
    path: "/v1/collector/enrollment-policies",
    operationId: "listEnrollmentPolicies",
    summary: "Enrollment policies, newest first",
    guard: scope(core, "admin"),
    query: v.strictObject(listFields),
    replies: { 200: { description: "A page of policies", schema: ListView(PolicyView) } },
    handle: ({ query }) => list(query, (page) => browsePolicies(core, page), policyView),
  });
};
