import * as v from "valibot";
import { RolloutTargetPage, wavesMax } from "../../../../proto/rollout/rollout.ts";
import { targetStatuses } from "../../../../proto/rollout/vocabulary.ts";
import { QueryInteger, Repeatable } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { browseTargets } from "../../../domain/rollout/targets.ts";
import { scope } from "../../../http/guards.ts";
import { createList, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import type { TargetFilter } from "../../../store/rollout/targets.ts";
import { IdParams } from "../../shapes.ts";
import { targetView } from "./rollout.ts";

const expected = "must be a status of a target";

/** The query fields that select targets; `status` is repeatable. */
export const targetFilterFields = {
  wave: v.optional(QueryInteger(1, wavesMax)),
  status: v.optional(
    Repeatable(v.picklist(targetStatuses, expected), {
      ...{ expected, countMax: targetStatuses.length, tooMany: "must be given at most once for each status" },
    }),
  ),
};

/** Returns the filter of parsed query fields. */
export const targetFilterOf = (
  rolloutId: string,
  { wave, status: statuses }: v.InferOutput<v.ObjectSchema<typeof targetFilterFields, undefined>>,
): TargetFilter => ({ rolloutId, wave, statuses });

/** `GET /v1/collector/rollouts/{id}/targets`: the hosts of a rollout, in the order of the waves. */
export const listRolloutTargetsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "rollout-targets");
  return route({
    method: "GET",
    path: "/v1/collector/rollouts/:id/targets",
    operationId: "listRolloutTargets",
    summary: "The hosts of a rollout in the order of the waves; `status` is repeatable",
    guard: scope(core, "audit"),
    params: IdParams,
    query: v.strictObject({ ...targetFilterFields, ...listFields }),
    replies: { 200: { description: "A page of targets", schema: RolloutTargetPage } },
    problems: ["not_found"],
    handle: ({ params, query }) =>
      list(query, (page) => browseTargets(core, targetFilterOf(params.id, query), page), targetView),
  });
};
