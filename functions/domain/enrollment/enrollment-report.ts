import { dayMs } from "../../../kit/clock.ts";
import type { Core } from "../../core.ts";
import type { Paged, PageRequest } from "../../store/database/query-parts.ts";
import {
  countEnrollment,
  groupRefusals,
  type ListedPolicyRow,
  type ListedTokenRow,
  listAllTokens,
  listPolicies,
  type PolicyFilter,
  type RefusalGroupRow,
  type TokenFilter,
} from "../../store/enrollment/report.ts";
import type { Origin } from "../audit/audit-log.ts";
import { auditedExport, exportBatchRows } from "../audit/audited-export.ts";
import type { Operator } from "../operator/authenticate.ts";

/** The parts of core that read enrollment. */
export type EnrollmentReportCore = Pick<Core, "db" | "clock">;

const nowOf = ({ clock }: EnrollmentReportCore): Date => new Date(clock.now());

/** Returns one page of the policies with their tokens by state, newest first. */
export const browsePolicies = (
  core: EnrollmentReportCore,
  filter: PolicyFilter,
  page: PageRequest,
): Promise<Paged<ListedPolicyRow>> => listPolicies(core.db, nowOf(core), filter, page);

/** Returns one page of the tokens of all policies, newest first. */
export const browseAllTokens = (
  core: EnrollmentReportCore,
  filter: TokenFilter,
  page: PageRequest,
): Promise<Paged<ListedTokenRow>> => listAllTokens(core.db, nowOf(core), filter, page);

/** Returns the policies and tokens by state, and the refusals of the last day by reason and policy. */
export const reportEnrollment = async (core: EnrollmentReportCore) => {
  const until = nowOf(core);
  const since = new Date(until.getTime() - dayMs);
  const [counts, refusals] = await Promise.all([
    countEnrollment(core.db, until),
    groupRefusals(core.db, { since, until }),
  ]);
  return { ...counts, since, until, refusals };
};

/** Who exports, and what was requested, for the audit log. */
interface ExportRequest {
  operator: Operator;
  origin: Origin;
  asked: Readonly<Record<string, unknown>>;
}

type ExportCore = EnrollmentReportCore & Pick<Core, "entropy">;

const exportOf = <Row>(
  core: ExportCore,
  id: "policies" | "tokens" | "refusals",
  { operator, origin, asked }: ExportRequest,
  read: (after: string | null) => Promise<Paged<Row>>,
): AsyncGenerator<Row[], void, void> => {
  const target = { type: "enrollment_export", id };
  return auditedExport(
    core,
    { operator, origin, action: "enrollment.export", target, details: { filters: asked } },
    read,
  );
};

/** Returns every policy of a list, newest first, in batches; audited. */
export const exportPolicies = (core: ExportCore, filter: PolicyFilter, request: ExportRequest) =>
  exportOf(core, "policies", request, (after) => browsePolicies(core, filter, { after, limit: exportBatchRows }));

/** Returns every token of a list, newest first, in batches; audited. */
export const exportTokens = (core: ExportCore, filter: TokenFilter, request: ExportRequest) =>
  exportOf(core, "tokens", request, (after) => browseAllTokens(core, filter, { after, limit: exportBatchRows }));

/** Returns the refusals of the last day by reason and policy; audited. */
export const exportRefusals = (core: ExportCore, request: ExportRequest) =>
  exportOf<RefusalGroupRow>(core, "refusals", request, async () => ({
    rows: (await reportEnrollment(core)).refusals,
    next: null,
  }));
