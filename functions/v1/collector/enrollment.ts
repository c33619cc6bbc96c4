import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  browseAllTokens,
  browsePolicies,
  exportPolicies,
  exportRefusals,
  exportTokens,
  reportEnrollment,
} from "#functions/domain/enrollment/enrollment-report.ts";
import { csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type {
  ListedPolicyRow,
  PolicyFilter,
  TokenFilter,
} from "#functions/store/enrollment/report.ts";
import {
  EnrollmentReport,
  ListedPolicy,
  ListedToken,
  PolicyPage,
  policyStates,
  RefusalGroup,
  TokenPage,
  tokenStates,
} from "#proto/operator/enrollment.ts";
import { Id, Identifier, Repeatable } from "#proto/values.ts";

/** The route that counts policies and tokens by state, and the refusals of the last day by reason and policy. */
export const enrollmentReports = (core: ReadCore) =>
  resource(core, "/v1/collector/enrollment", ({ get }) => ({
    reportEnrollment: get(
      "",
      "Enrollment policies and bootstrap tokens by state, and rejected enrollments of the last day",
      {
        returns: ["The report", EnrollmentReport],
        handle: async () => {
          const report = await reportEnrollment(core);
          return reportView({ ...report, generatedAt: report.until });
        },
      },
    ),
  }));

const reportView = viewOf(EnrollmentReport);
const refusalView = viewOf(RefusalGroup);

/** The query fields that select policies: `q` is part of a name. */
const policyFilterFields = {
  state: v.optional(v.picklist(policyStates, "must be active or frozen")),
  q: v.optional(Identifier(120)),
};

type Fields<Entries extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<Entries, undefined>>;

const policyFilterOf = ({ state, q: text }: Fields<typeof policyFilterFields>): PolicyFilter => ({
  state,
  text,
});

const expected = "must be a state of a token";

/** The query fields that select tokens; `state` is repeatable. */
const tokenFilterFields = {
  state: v.optional(
    Repeatable(v.picklist(tokenStates, expected), {
      expected,
      countMax: tokenStates.length,
      tooMany: "must be given at most once for each state",
    }),
  ),
  policy_id: v.optional(Id),
};

const tokenFilterOf = (query: Fields<typeof tokenFilterFields>): TokenFilter => ({
  states: query.state,
  policyId: query.policy_id,
});

/** The lists of all policies and all tokens, which run on the pool of reports. */
export const enrollmentListRoutes = (core: ReadCore) =>
  resource(core, "/v1/collector", ({ list }) => ({
    listEnrollmentPolicies: list(
      "/enrollment-policies",
      "Enrollment policies and how many tokens each has in each state, newest first",
      {
        filter: policyFilterFields,
        returns: ["A page of policies", PolicyPage],
        find: (page, { query }) => browsePolicies(core, policyFilterOf(query), page),
        view: listedPolicyView,
        furtherMembers: () => ({
          workload_issuers: core.config.workloadIssuers().map(({ issuer }) => issuer),
        }),
      },
    ),

    listAllBootstrapTokens: list(
      "/tokens",
      "The bootstrap tokens of all policies with their states, newest first",
      {
        filter: tokenFilterFields,
        listName: "all-tokens",
        returns: ["A page of tokens", TokenPage],
        find: (page, { query }) => browseAllTokens(core, tokenFilterOf(query), page),
        view: listedTokenView,
      },
    ),
  }));

const policyView = viewOf(ListedPolicy);

/** Returns the view of a policy with its tokens by state. */
const listedPolicyView = (row: ListedPolicyRow): ListedPolicy =>
  policyView({ ...row, state: row.frozenAt === null ? "active" : "frozen" });

/** Returns the view of a token, without its value or the hash of it. */
const listedTokenView = viewOf(ListedToken);

const policyColumns = {
  ...memberColumns<ListedPolicy>(
    "id",
    "name",
    "description",
    "state",
    "created_at",
    "created_by",
    "created_by_email",
    "frozen_at",
    "allowed_identity_prefixes",
    "allowed_platforms",
    "allowed_source_cidrs",
    "certificate_ttl_seconds",
    "reenrollment",
    "enrollment_count",
    "max_enrollments",
    "max_enrollments_per_hour",
  ),
  ...Object.fromEntries(
    tokenStates.map((state) => [`tokens_${state}`, ({ tokens }: ListedPolicy) => tokens[state]]),
  ),
};

const tokenColumns = memberColumns<ListedToken>(
  "id",
  "token_prefix",
  "policy_id",
  "policy_name",
  "state",
  "use_count",
  "max_uses",
  "expires_at",
  "last_used_at",
  "last_used_address",
  "bound_device_id",
  "allowed_source_cidrs",
  "description",
  "created_at",
  "created_by",
  "created_by_email",
);

const refusalColumns = memberColumns<RefusalGroup>(
  "reason",
  "policy_id",
  "policy_name",
  "refused",
  "events",
  "last_at",
  "last_address",
);

/** `GET /v1/collector/enrollment-policies/export.csv`: every policy of the list; audited. */
export const exportPoliciesRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/enrollment-policies/export.csv",
    operationId: "exportEnrollmentPolicies",
    summary: "All enrollment policies under the list's filters as CSV, newest first",
    query: v.strictObject(policyFilterFields),
    open: async ({ query }, audit) => ({
      name: "enrollment-policies",
      columns: policyColumns,
      batches: viewsOf(exportPolicies(core, policyFilterOf(query), audit), listedPolicyView),
    }),
  });

/** `GET /v1/collector/tokens/export.csv`: every token of the list, without its value; audited. */
export const exportTokensRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/tokens/export.csv",
    operationId: "exportBootstrapTokens",
    summary: "All bootstrap tokens under the list's filters as CSV, newest first",
    query: v.strictObject(tokenFilterFields),
    open: async ({ query }, audit) => ({
      name: "bootstrap-tokens",
      columns: tokenColumns,
      batches: viewsOf(exportTokens(core, tokenFilterOf(query), audit), listedTokenView),
    }),
  });

/** `GET /v1/collector/enrollment/refusals.csv`: the rejected enrollments of the last day by reason and policy; audited. */
export const exportRefusalsRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/enrollment/refusals.csv",
    operationId: "exportEnrollmentRefusals",
    summary: "Rejected enrollments of the last day by reason and policy as CSV",
    open: async (_, audit) => ({
      name: "enrollment-refusals",
      columns: refusalColumns,
      batches: viewsOf(exportRefusals(core, audit), refusalView),
    }),
  });
