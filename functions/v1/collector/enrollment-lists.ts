import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { browseAllTokens, browsePolicies } from "#functions/domain/enrollment/enrollment-report.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type {
  ListedPolicyRow,
  PolicyFilter,
  TokenFilter,
} from "#functions/store/enrollment/report.ts";
import {
  ListedPolicy,
  ListedToken,
  PolicyPage,
  policyStates,
  TokenPage,
  tokenStates,
} from "#proto/operator/enrollment.ts";
import { Id, Identifier, Repeatable } from "#proto/values.ts";

/** The query fields that select policies: `q` is part of a name. */
export const policyFilterFields = {
  state: v.optional(v.picklist(policyStates, "must be active or frozen")),
  q: v.optional(Identifier(120)),
};

/** Returns the filter of parsed query fields. */
export const policyFilterOf = ({
  state,
  q: text,
}: v.InferOutput<v.ObjectSchema<typeof policyFilterFields, undefined>>): PolicyFilter => ({
  state,
  text,
});

const expected = "must be a state of a token";

/** The query fields that select tokens; `state` is repeatable. */
export const tokenFilterFields = {
  state: v.optional(
    Repeatable(v.picklist(tokenStates, expected), {
      expected,
      countMax: tokenStates.length,
      tooMany: "must be given at most once for each state",
    }),
  ),
  policy_id: v.optional(Id),
};

/** Returns the filter of parsed query fields. */
export const tokenFilterOf = ({
  state: states,
  policy_id: policyId,
}: v.InferOutput<v.ObjectSchema<typeof tokenFilterFields, undefined>>): TokenFilter => ({
  states,
  policyId,
});

/** The lists of all policies and all tokens, which run on the pool of reports. */
export const enrollmentListRoutes = (core: Pick<Core, "config" | "db" | "clock">) =>
  resource(core, "/v1/collector", { read: "audit", write: "admin" }, ({ list }) => ({
    listEnrollmentPolicies: list(
      "/enrollment-policies",
      "Enrollment policies and how many tokens each has in each state, newest first",
      {
        filter: policyFilterFields,
        returns: ["A page of policies", PolicyPage],
        find: (page, { query }) => browsePolicies(core, policyFilterOf(query), page),
        view: listedPolicyView,
        more: () => ({ workload_issuers: core.config.workloadIssuers.map(({ issuer }) => issuer) }),
      },
    ),

    listAllBootstrapTokens: list(
      "/tokens",
      "The bootstrap tokens of all policies with their states, newest first",
      {
        filter: tokenFilterFields,
        cursors: "all-tokens",
        returns: ["A page of tokens", TokenPage],
        find: (page, { query }) => browseAllTokens(core, tokenFilterOf(query), page),
        view: listedTokenView,
      },
    ),
  }));

const policyView = viewOf(ListedPolicy);

/** Returns the view of a policy with its tokens by state. */
export const listedPolicyView = (row: ListedPolicyRow): ListedPolicy =>
  policyView({ ...row, state: row.frozenAt === null ? "active" : "frozen" });

/** Returns the view of a token, without its value or the hash of it. */
export const listedTokenView = viewOf(ListedToken);
