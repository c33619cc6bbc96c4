import * as v from "valibot";
import { controlRollout, type RolloutControl } from "#functions/domain/rollout/control.ts";
import type { RolloutCore } from "#functions/domain/rollout/create.ts";
import { resource } from "#functions/http/resource.ts";
import { Rollout } from "#proto/rollout/rollout.ts";
import { Prose } from "#proto/values.ts";
import { rolloutView } from "./rollout.ts";

/** The routes that control a rollout. */
export const rolloutControls = (core: RolloutCore) =>
  resource(core, "/v1/collector/rollouts", { read: "audit", write: "admin" }, ({ act }) => {
    const control = (path: `/:id/${string}`, summary: string, change: RolloutControl) =>
      act(path, summary, {
        body: ControlBody,
        bodyAbsentAs: {},
        bodyExample: { reason: "the disks of rack 4 are being replaced" },
        returns: ["The rollout", Rollout],
        problems: [
          "rollout_state",
          ...(change === "roll_back" ? (["rollout_overlap"] as const) : []),
        ],
        handle: async ({ params, body: { reason }, caller, origin }) =>
          rolloutView(
            await controlRollout(
              core,
              caller,
              { rolloutId: params.id, control: change, reason },
              origin,
            ),
          ),
      });
    return {
      pauseRollout: control(
        "/:id/pause",
        "Pause a rollout: no further host is assigned; idempotent",
        "pause",
      ),
      resumeRollout: control(
        "/:id/resume",
        "Resume a paused rollout: the wave's soak starts anew, and failures before a breach no longer count",
        "resume",
      ),
      abortRollout: control(
        "/:id/abort",
        "End a rollout; its hosts keep what they were assigned; idempotent",
        "abort",
      ),
      rollBackRollout: control(
        "/:id/roll-back",
        "Assign to each host of a rollout, also an aborted one, what it had before, unless somebody has changed it since",
        "roll_back",
      ),
    };
  });

const ControlBody = v.strictObject({ reason: v.optional(v.nullable(Prose(500)), null) });
