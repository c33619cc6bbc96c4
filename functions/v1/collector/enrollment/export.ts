import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  exportPolicies,
  exportRefusals,
  exportTokens,
} from "#functions/domain/enrollment/enrollment-report.ts";
import { type CsvColumn, csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import {
  type ListedPolicy,
  type ListedToken,
  type RefusalGroup,
  tokenStates,
} from "#proto/operator/enrollment.ts";
import {
  listedPolicyView,
  listedTokenView,
  policyFilterFields,
  policyFilterOf,
  tokenFilterFields,
  tokenFilterOf,
} from "../enrollment-lists.ts";
import { refusalView } from "./refusal.ts";

type ExportCore = Pick<Core, "config" | "db" | "clock" | "entropy">;

const policyColumns = [
  ...memberColumns<ListedPolicy>(
    "id",
    "name",
    "description",
    "state",
    "created_at",
    "created_by",
    "created_by_email",
  ),
  ...memberColumns<ListedPolicy>(
    "frozen_at",
    "allowed_identity_prefixes",
    "allowed_platforms",
    "allowed_source_cidrs",
  ),
  ...memberColumns<ListedPolicy>("certificate_ttl_seconds", "reenrollment", "enrollment_count"),
  ...memberColumns<ListedPolicy>("max_enrollments", "max_enrollments_per_hour"),
  ...tokenStates.map(
    (state): CsvColumn<ListedPolicy> => [`tokens_${state}`, ({ tokens }) => tokens[state]],
  ),
];

const tokenColumns = [
  ...memberColumns<ListedToken>(
    "id",
    "token_prefix",
    "policy_id",
    "policy_name",
    "state",
    "use_count",
    "max_uses",
  ),
  ...memberColumns<ListedToken>(
    "expires_at",
    "last_used_at",
    "last_used_address",
    "bound_device_id",
  ),
  ...memberColumns<ListedToken>("allowed_source_cidrs", "description"),
  ...memberColumns<ListedToken>("created_at", "created_by", "created_by_email"),
];

const refusalColumns = [
  ...memberColumns<RefusalGroup>("reason", "policy_id", "policy_name"),
  ...memberColumns<RefusalGroup>("refused", "events", "last_at", "last_address"),
];

/** `GET /v1/collector/enrollment-policies/export.csv`: every policy of the list; audited. */
export const exportPoliciesRoute = (core: ExportCore) =>
  csvRoute(core, {
    path: "/v1/collector/enrollment-policies/export.csv",
    operationId: "exportEnrollmentPolicies",
    summary: "All enrollment policies under the list's filters as CSV, newest first",
    query: v.strictObject(policyFilterFields),
    open: async ({ query: asked, caller: operator, origin }) => {
      const policies = exportPolicies(core, policyFilterOf(asked), { operator, origin, asked });
      return {
        name: "enrollment-policies",
        asked,
        columns: policyColumns,
        batches: viewsOf(policies, listedPolicyView),
      };
    },
  });

/** `GET /v1/collector/tokens/export.csv`: every token of the list, without its value; audited. */
export const exportTokensRoute = (core: ExportCore) =>
  csvRoute(core, {
    path: "/v1/collector/tokens/export.csv",
    operationId: "exportBootstrapTokens",
    summary: "All bootstrap tokens under the list's filters as CSV, newest first",
    query: v.strictObject(tokenFilterFields),
    open: async ({ query: asked, caller: operator, origin }) => {
      const tokens = exportTokens(core, tokenFilterOf(asked), { operator, origin, asked });
      return {
        name: "bootstrap-tokens",
        asked,
        columns: tokenColumns,
        batches: viewsOf(tokens, listedTokenView),
      };
    },
  });

/** `GET /v1/collector/enrollment/refusals.csv`: the rejected enrollments of the last day by reason and policy; audited. */
export const exportRefusalsRoute = (core: ExportCore) =>
  csvRoute(core, {
    path: "/v1/collector/enrollment/refusals.csv",
    operationId: "exportEnrollmentRefusals",
    summary: "Rejected enrollments of the last day by reason and policy as CSV",
    open: async ({ caller: operator, origin }) => {
      const refusals = exportRefusals(core, { operator, origin, asked: {} });
      return {
        name: "enrollment-refusals",
        asked: {},
        columns: refusalColumns,
        batches: viewsOf(refusals, refusalView),
      };
    },
  });
