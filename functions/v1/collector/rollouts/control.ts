import * as v from "valibot";
import { Prose } from "../../../../proto/management/text.ts";
import { Rollout } from "../../../../proto/rollout/rollout.ts";
import { controlRollout, type RolloutControl } from "../../../domain/rollout/control.ts";
import type { RolloutCore } from "../../../domain/rollout/create.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { rolloutView } from "./rollout.ts";

const ControlBody = v.strictObject({ reason: v.optional(v.nullable(Prose(500)), null) });

const controlRoute = (
  core: RolloutCore,
  {
    control,
    path,
    operationId,
    summary,
  }: { control: RolloutControl; path: string; operationId: string; summary: string },
) =>
  route({
    method: "POST",
    path: `/v1/collector/rollouts/:id/${path}`,
    operationId,
    summary,
    guard: scope(core, "admin"),
    params: IdParams,
    body: ControlBody,
    bodyAbsentAs: {},
    bodyExample: { reason: "the disks of rack 4 are being replaced" },
    replies: { 200: { description: "The rollout", schema: Rollout } },
    problems: ["not_found", "rollout_state", ...(control === "roll_back" ? (["rollout_overlap"] as const) : [])],
    handle: async ({ params, body, caller, origin }) => {
      const change = { rolloutId: params.id, control, reason: body.reason };
      return { status: 200, body: rolloutView(await controlRollout(core, caller, change, origin)) };
    },
  });

/** `POST /v1/collector/rollouts/{id}/pause`: no further host is assigned. */
export const pauseRolloutRoute = (core: RolloutCore) =>
  controlRoute(core, {
    control: "pause",
    path: "pause",
    operationId: "pauseRollout",
    summary: "Pause a rollout: no further host is assigned; idempotent",
  });

/** `POST /v1/collector/rollouts/{id}/resume`: goes on with the wave; its soak starts anew. */
export const resumeRolloutRoute = (core: RolloutCore) =>
  controlRoute(core, {
    control: "resume",
    path: "resume",
    operationId: "resumeRollout",
    summary: "Resume a paused rollout: the wave's soak starts anew, and failures before a breach no longer count",
  });

/** `POST /v1/collector/rollouts/{id}/abort`: ends it; hosts keep what they were assigned. */
export const abortRolloutRoute = (core: RolloutCore) =>
  controlRoute(core, {
    control: "abort",
    path: "abort",
    operationId: "abortRollout",
    summary: "End a rollout; its hosts keep what they were assigned; idempotent",
  });

/** `POST /v1/collector/rollouts/{id}/roll-back`: assigns to each host what it had before, also after an abort. */
export const rollBackRolloutRoute = (core: RolloutCore) =>
  controlRoute(core, {
    control: "roll_back",
    path: "roll-back",
    operationId: "rollBackRollout",
    summary:
      "Assign to each host of a rollout, also an aborted one, what it had before, unless somebody has changed it since",
  });
