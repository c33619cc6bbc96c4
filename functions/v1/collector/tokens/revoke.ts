import type { Core } from "../../../core.ts";
import { revokeToken } from "../../../domain/enrollment/tokens.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams, ReasonBody } from "../../shapes.ts";
import { TokenView, tokenView } from "./token.ts";

/** `POST /v1/collector/tokens/{id}/revoke`: the token enrolls no further host. */
export const revokeTokenRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/tokens/:id/revoke",
    operationId: "revokeBootstrapToken",
    summary: "Revoke a bootstrap token; idempotent",
    guard: scope(core, "admin"),
    params: IdParams,
    body: ReasonBody,
    bodyAbsentAs: {},
    bodyExample: { reason_code: "leaked" },
    replies: { 200: { description: "The revoked token", schema: TokenView } },
    problems: ["not_found"],
    handle: async ({ params, body, caller, origin }) => {
      const change = { tokenId: params.id, reasonCode: body.reason_code ?? null };
      return { status: 200, body: tokenView(await revokeToken(core, caller, change, origin), core.clock.now()) };
    },
  });
