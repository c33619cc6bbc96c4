import * as v from "valibot";
import {
  type ListedPolicy,
  type ListedToken,
  type RefusalGroup,
  tokenStates,
} from "../../../../proto/operator/enrollment.ts";
import type { Core } from "../../../core.ts";
import { exportPolicies, exportRefusals, exportTokens } from "../../../domain/enrollment/enrollment-report.ts";
import { type CsvColumn, csvRoute, viewsOf } from "../../../http/csv.ts";
import { policyFilterFields, policyFilterOf } from "../enrollment-policies/list.ts";
import { listedPolicyView } from "../enrollment-policies/policy.ts";
import { tokenFilterFields, tokenFilterOf } from "../tokens/list.ts";
import { listedTokenView } from "../tokens/token.ts";
import { refusalView } from "./refusal.ts";

type ExportCore = Pick<Core, "config" | "db" | "clock" | "entropy">;

const policyColumns: readonly CsvColumn<ListedPolicy>[] = [
  ["id", ({ id }) => id],
  ["name", ({ name }) => name],
  ["description", ({ description }) => description],
  ["state", ({ state }) => state],
  ["created_at", ({ created_at }) => created_at],
  ["created_by", ({ created_by }) => created_by],
  ["created_by_email", ({ created_by_email }) => created_by_email],
  ["frozen_at", ({ frozen_at }) => frozen_at],
  ["allowed_identity_prefixes", ({ allowed_identity_prefixes }) => allowed_identity_prefixes.join(" ")],
  ["allowed_platforms", ({ allowed_platforms }) => allowed_platforms.join(" ")],
  ["allowed_source_cidrs", ({ allowed_source_cidrs }) => allowed_source_cidrs.join(" ")],
  ["certificate_ttl_seconds", ({ certificate_ttl_seconds }) => certificate_ttl_seconds],
  ["reenrollment", ({ reenrollment }) => reenrollment],
  ["enrollment_count", ({ enrollment_count }) => enrollment_count],
  ["max_enrollments", ({ max_enrollments }) => max_enrollments],
  ["max_enrollments_per_hour", ({ max_enrollments_per_hour }) => max_enrollments_per_hour],
  ...tokenStates.map((state) => [`tokens_${state}`, ({ tokens }) => tokens[state]] satisfies CsvColumn<ListedPolicy>),
];

const tokenColumns: readonly CsvColumn<ListedToken>[] = [
  ["id", ({ id }) => id],
  ["token_prefix", ({ token_prefix }) => token_prefix],
  ["policy_id", ({ policy_id }) => policy_id],
  ["policy_name", ({ policy_name }) => policy_name],
  ["state", ({ state }) => state],
  ["use_count", ({ use_count }) => use_count],
  ["max_uses", ({ max_uses }) => max_uses],
  ["expires_at", ({ expires_at }) => expires_at],
  ["last_used_at", ({ last_used_at }) => last_used_at],
  ["last_used_address", ({ last_used_address }) => last_used_address],
  ["bound_device_id", ({ bound_device_id }) => bound_device_id],
  ["allowed_source_cidrs", ({ allowed_source_cidrs }) => allowed_source_cidrs.join(" ")],
  ["description", ({ description }) => description],
  ["created_at", ({ created_at }) => created_at],
  ["created_by", ({ created_by }) => created_by],
  ["created_by_email", ({ created_by_email }) => created_by_email],
];

const refusalColumns: readonly CsvColumn<RefusalGroup>[] = [
  ["reason", ({ reason }) => reason],
  ["policy_id", ({ policy_id }) => policy_id],
  ["policy_name", ({ policy_name }) => policy_name],
  ["refused", ({ refused }) => refused],
  ["events", ({ events }) => events],
  ["last_at", ({ last_at }) => last_at],
  ["last_address", ({ last_address }) => last_address],
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
      return { name: "enrollment-policies", asked, columns: policyColumns, batches: viewsOf(policies, listedPolicyView) };
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
      return { name: "bootstrap-tokens", asked, columns: tokenColumns, batches: viewsOf(tokens, listedTokenView) };
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
      return { name: "enrollment-refusals", asked: {}, columns: refusalColumns, batches: viewsOf(refusals, refusalView) };
    },
  });
