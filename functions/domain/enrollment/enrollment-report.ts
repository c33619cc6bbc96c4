import type { TimedCore, WriteCore } from "#functions/core.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import {
  countEnrollment,
  groupRefusals,
  type ListedPolicyRow,
  type ListedTokenRow,
  listAllTokens,
  listPolicies,
  type PolicyFilter,
  type TokenFilter,
} from "#functions/store/enrollment/report.ts";
import { dayMs } from "#kit/clock.ts";
import { auditedExport, type RequestedExport } from "../audit/audited-export.ts";

const nowOf = ({ clock }: TimedCore): Date => new Date(clock.now());

/** Returns one page of the policies with their tokens by state, newest first. */
export const browsePolicies = (
  core: TimedCore,
  filter: PolicyFilter,
  page: PageRequest,
): Promise<Paged<ListedPolicyRow>> => listPolicies(core.db, nowOf(core), filter, page);

/** Returns one page of the tokens of all policies, newest first. */
export const browseAllTokens = (
  core: TimedCore,
  filter: TokenFilter,
  page: PageRequest,
): Promise<Paged<ListedTokenRow>> => listAllTokens(core.db, nowOf(core), filter, page);

/** Returns the policies and tokens by state, and the refusals of the last day by reason and policy. */
export const reportEnrollment = async (core: TimedCore) => {
  const period = lastDay(core);
  const [counts, refusals] = await Promise.all([
    countEnrollment(core.db, period.until),
    groupRefusals(core.db, period),
  ]);
  return { ...counts, ...period, refusals };
};

const lastDay = (core: TimedCore) => {
  const until = nowOf(core);
  return { since: new Date(until.getTime() - dayMs), until };
};

const exportEntry = (id: "policies" | "tokens" | "refusals") =>
  ({ action: "enrollment.export", target: { type: "enrollment_export", id } }) as const;

/** Returns every policy of a list, newest first, in batches; audited. */
export const exportPolicies = (core: WriteCore, filter: PolicyFilter, request: RequestedExport) =>
  auditedExport(core, request, exportEntry("policies"), (page: PageRequest) =>
    browsePolicies(core, filter, page),
  );

/** Returns every token of a list, newest first, in batches; audited. */
export const exportTokens = (core: WriteCore, filter: TokenFilter, request: RequestedExport) =>
  auditedExport(core, request, exportEntry("tokens"), (page: PageRequest) =>
    browseAllTokens(core, filter, page),
  );

/** Returns the refusals of the last day by reason and policy, in one batch; audited. */
export const exportRefusals = (core: WriteCore, request: RequestedExport) =>
  auditedExport(core, request, exportEntry("refusals"), async () => ({
    rows: await groupRefusals(core.db, lastDay(core)),
    next: null,
  }));
