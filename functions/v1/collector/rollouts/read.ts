import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { browseRollouts, describeRollout } from "#functions/domain/rollout/browse.ts";
import { resource } from "#functions/http/resource.ts";
import { Rollout, RolloutList } from "#proto/rollout/rollout.ts";
import { rolloutStates } from "#proto/rollout/vocabulary.ts";
import { Id, Repeatable } from "#proto/values.ts";
import { rolloutView } from "./rollout.ts";

const expectedState = "must be a state of a rollout";

const filterFields = {
  state: v.optional(
    Repeatable(v.picklist(rolloutStates, expectedState), {
      expected: expectedState,
      countMax: rolloutStates.length,
      tooMany: "must be given at most once for each state",
    }),
  ),
  config_id: v.optional(Id),
  identity_id: v.optional(Id),
};

/** The routes that read rollouts, on the pool of reports. */
export const rolloutReports = (core: Pick<Core, "config" | "db" | "clock">) =>
  resource(core, "/v1/collector/rollouts", { read: "audit", write: "admin" }, ({ list, get }) => ({
    listRollouts: list(
      "",
      "Rollouts with their waves, newest first; `state` is repeatable; `identity_id` selects those that have a host as a target",
      {
        filter: filterFields,
        returns: ["A page of rollouts", RolloutList],
        find: (page, { query: { state: states, config_id: configId, identity_id: identityId } }) =>
          browseRollouts(core, { states, configId, identityId }, page),
        view: rolloutView,
      },
    ),

    getRollout: get("/:id", "One rollout with its waves and the evidence of its newest breach", {
      returns: ["The rollout", Rollout],
      handle: async ({ params }) => rolloutView(await describeRollout(core, params.id)),
    }),
  }));
