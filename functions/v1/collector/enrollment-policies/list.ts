import * as v from "valibot";
import { Identifier } from "../../../../proto/management/text.ts";
import { PolicyPage, policyStates } from "../../../../proto/operator/enrollment.ts";
import type { Core } from "../../../core.ts";
import { browsePolicies } from "../../../domain/enrollment/enrollment-report.ts";
import { scope } from "../../../http/guards.ts";
import { createList, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import type { PolicyFilter } from "../../../store/enrollment/report.ts";
import { listedPolicyView } from "./policy.ts";

/** The query fields that select policies: `q` is part of a name. */
export const policyFilterFields = {
  state: v.optional(v.picklist(policyStates, "must be active or frozen")),
  q: v.optional(Identifier(120)),
};

/** Returns the filter of parsed query fields. */
export const policyFilterOf = ({
  state,
  q: text,
}: v.InferOutput<v.ObjectSchema<typeof policyFilterFields, undefined>>): PolicyFilter => ({ state, text });

/** `GET /v1/collector/enrollment-policies`: the policies and their tokens by state, newest first. */
export const listPoliciesRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "enrollment-policies");
  return route({
    method: "GET",
    path: "/v1/collector/enrollment-policies",
    operationId: "listEnrollmentPolicies",
    summary: "Enrollment policies and how many tokens each has in each state, newest first",
    guard: scope(core, "audit"),
    query: v.strictObject({ ...policyFilterFields, ...listFields }),
    replies: { 200: { description: "A page of policies", schema: PolicyPage } },
    handle: ({ query }) =>
      list(
        query,
        (page) => browsePolicies(core, policyFilterOf(query), page),
        listedPolicyView,
        () => ({ workload_issuers: core.config.workloadIssuers.map(({ issuer }) => issuer) }),
      ),
  });
};
