import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { nudgeHost, nudges } from "#functions/domain/certificate/nudge.ts";
import { scope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";

const NudgeBody = v.strictObject({
  action: v.picklist(nudges, `must be one of ${nudges.join(", ")}`),
});

/** `POST /v1/collector/hosts/{id}/nudges`: has a host renew its certificate or report now. */
export const nudgeHostRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/hosts/:id/nudges",
    operationId: "nudgeHost",
    summary:
      "Have a host renew its certificate or report now: at once on its stream, else with its next heartbeat",
    guard: scope(core, "admin"),
    params: IdParams,
    body: NudgeBody,
    bodyExample: { action: "renew_now" },
    replies: { 204: { description: "Sent" } },
    problems: ["not_found", "conflict"],
    handle: async ({ params, body, caller, origin }) => {
      await nudgeHost(core, caller, { identityId: params.id, ...body }, origin);
      return { status: 204 };
    },
  });
