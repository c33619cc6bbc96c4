import type { ConfiguredCore } from "#functions/core.ts";
import { createRollout } from "#functions/domain/rollout/create.ts";
import { resource } from "#functions/http/resource.ts";
import { Rollout, RolloutBody } from "#proto/rollout/rollout.ts";
import { rolloutConditions } from "#proto/rollout/vocabulary.ts";
import { rolloutView } from "./rollout.ts";

/** The route that assigns a config to the hosts of a filter, wave by wave. */
export const rolloutCreation = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/rollouts", ({ post }) => ({
    createRollout: post(
      "",
      "Roll a config out to the hosts of a filter, wave by wave; the hosts are those that match now",
      {
        body: RolloutBody,
        bodyExample: {
          config_id: "01920000-0000-7000-8000-000000000001",
          filter: "label.env:prod",
          waves: [
            { percent: 5, soak_seconds: 600 },
            { percent: 100, soak_seconds: 600 },
          ],
          gate: {
            max_failed_percent: 5,
            states: [...rolloutConditions],
          },
          on_breach: "pause",
        },
        returns: ["The rollout", Rollout],
        problems: [
          "not_found",
          "rollout_overlap",
          "rollout_waves_invalid",
          "rollout_without_targets",
          "rollout_config_unparsable",
          "config_kind_mismatch",
          "config_key_unknown",
        ],
        handle: async ({ body, ...by }) => {
          const row = await createRollout(core, by, body);
          return rolloutView(row);
        },
      },
    ),
  }));
