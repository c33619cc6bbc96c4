import { Rollout } from "../../../../proto/rollout/rollout.ts";
import type { Core } from "../../../core.ts";
import { describeRollout } from "../../../domain/rollout/browse.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { rolloutView } from "./rollout.ts";

/** `GET /v1/collector/rollouts/{id}`: one rollout with its waves and the evidence of its newest breach. */
export const getRolloutRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/rollouts/:id",
    operationId: "getRollout",
    summary: "One rollout with its waves and the evidence of its newest breach",
    guard: scope(core, "audit"),
    params: IdParams,
    replies: { 200: { description: "The rollout", schema: Rollout } },
    problems: ["not_found"],
    handle: async ({ params }) => ({ status: 200, body: rolloutView(await describeRollout(core, params.id)) }),
  });
