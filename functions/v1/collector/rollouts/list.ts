import * as v from "valibot";
import { RolloutList } from "../../../../proto/rollout/rollout.ts";
import { rolloutStates } from "../../../../proto/rollout/vocabulary.ts";
import { Id, Repeatable } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { browseRollouts } from "../../../domain/rollout/browse.ts";
import { scope } from "../../../http/guards.ts";
import { createList, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import { rolloutView } from "./rollout.ts";

const expected = "must be a state of a rollout";

const filterFields = {
  state: v.optional(
    Repeatable(v.picklist(rolloutStates, expected), {
      ...{ expected, countMax: rolloutStates.length, tooMany: "must be given at most once for each state" },
    }),
  ),
  config_id: v.optional(Id),
  identity_id: v.optional(Id),
};

/** `GET /v1/collector/rollouts`: the rollouts, newest first. */
export const listRolloutsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "rollouts");
  return route({
    method: "GET",
    path: "/v1/collector/rollouts",
    operationId: "listRollouts",
    summary:
      "Rollouts with their waves, newest first; `state` is repeatable; `identity_id` selects those that have a host as a target",
    guard: scope(core, "audit"),
    query: v.strictObject({ ...filterFields, ...listFields }),
    replies: { 200: { description: "A page of rollouts", schema: RolloutList } },
    handle: ({ query: { state: states, config_id: configId, identity_id: identityId, ...query } }) =>
      list(query, (page) => browseRollouts(core, { states, configId, identityId }, page), rolloutView),
  });
};
