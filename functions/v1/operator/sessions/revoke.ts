import type { SessionCore } from "../../../domain/operator-session/begin-session.ts";
import { revokeSession } from "../../../domain/operator-session/sessions.ts";
import { scope } from "../../../http/guards.ts";
import { IdParams } from "../../../http/resource.ts";
import { route } from "../../../http/route.ts";

/** `DELETE /v1/operator/sessions/{id}`: ends a session; its token is rejected from the next request on. */
export const revokeSessionRoute = (core: SessionCore) =>
  route({
    method: "DELETE",
    path: "/v1/operator/sessions/:id",
    operationId: "revokeOperatorSession",
    summary: "Revoke a session of the caller, or anyone's as an admin; idempotent",
    guard: scope(core, "read"),
    params: IdParams,
    replies: { 204: { description: "The session is revoked" } },
    problems: ["not_found"],
    handle: async ({ params, caller, origin }) => {
      await revokeSession(core, caller, { sessionId: params.id }, origin);
      return { status: 204 };
    },
  });
