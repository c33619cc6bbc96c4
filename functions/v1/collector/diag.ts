import { answerDiag } from "#functions/domain/fleet/diags.ts";
import { route } from "#functions/http/route.ts";
import { DiagRequest, DiagResponse } from "#proto/management/diag.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";

/** `POST /v1/collector/diag`: the calling host answers core's request for its diagnostics. */
export const diagRoute = (core: ManagementCore) =>
  route({
    method: "POST",
    path: "/v1/collector/diag",
    operationId: "sendDiag",
    summary: "Send the diagnostics that core has requested of the calling collector, once",
    guard: collector(core, "diag"),
    body: DiagRequest,
    replies: { 200: { description: "Stored for a day", schema: DiagResponse } },
    problems: [...managementProblems, "diag_not_requested"],
    handle: async ({ body, caller, origin }) => {
      const receivedAt = await answerDiag(core, caller, body, origin);
      return { status: 200, body: { received_at: receivedAt.toISOString() } };
    },
  });
