import type { Core } from "#functions/core.ts";
import { reportEnrollment } from "#functions/domain/enrollment/enrollment-report.ts";
import { scope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { EnrollmentReport } from "#proto/operator/enrollment.ts";
import { refusalView } from "./refusal.ts";

/** `GET /v1/collector/enrollment`: policies and tokens by state, and the refusals of the last day by reason and policy. */
export const enrollmentReportRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/enrollment",
    operationId: "reportEnrollment",
    summary:
      "Enrollment policies and bootstrap tokens by state, and rejected enrollments of the last day",
    guard: scope(core, "audit"),
    replies: { 200: { description: "The report", schema: EnrollmentReport } },
    handle: async () => {
      const { until, since, policies, tokens, refusals } = await reportEnrollment(core);
      const body: EnrollmentReport = {
        generated_at: until.toISOString(),
        policies,
        tokens,
        since: since.toISOString(),
        refusals: refusals.map(refusalView),
      };
      return { status: 200, body };
    },
  });
