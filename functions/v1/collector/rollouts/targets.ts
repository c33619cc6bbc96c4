import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { browseTargets, exportTargets } from "#functions/domain/rollout/targets.ts";
import { csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import { IdParams, resource } from "#functions/http/resource.ts";
import type { TargetFilter } from "#functions/store/rollout/targets.ts";
import { type RolloutTarget, RolloutTargetPage, wavesMax } from "#proto/rollout/rollout.ts";
import { targetStatuses } from "#proto/rollout/vocabulary.ts";
import { QueryInteger, Repeatable } from "#proto/values.ts";
import { targetView } from "./rollout.ts";

const expectedStatus = "must be a status of a target";

const targetFilterFields = {
  wave: v.optional(QueryInteger(1, wavesMax)),
  status: v.optional(
    Repeatable(v.picklist(targetStatuses, expectedStatus), {
      expected: expectedStatus,
      countMax: targetStatuses.length,
      tooMany: "must be given at most once for each status",
    }),
  ),
};

const targetFilterOf = (
  rolloutId: string,
  { wave, status: statuses }: v.InferOutput<v.ObjectSchema<typeof targetFilterFields, undefined>>,
): TargetFilter => ({ rolloutId, wave, statuses });

/** The hosts of a rollout, in the order of the waves. */
export const rolloutTargets = (core: Pick<Core, "config" | "db" | "clock">) =>
  resource(core, "/v1/collector/rollouts", { read: "audit", write: "admin" }, ({ list }) => ({
    listRolloutTargets: list(
      "/:id/targets",
      "The hosts of a rollout in the order of the waves; `status` is repeatable",
      {
        filter: targetFilterFields,
        cursors: "rollout-targets",
        returns: ["A page of targets", RolloutTargetPage],
        find: (page, { params, query }) =>
          browseTargets(core, targetFilterOf(params.id, query), page),
        view: targetView,
      },
    ),
  }));

const columns = [
  ...memberColumns<RolloutTarget>(
    "identity_id",
    "identity",
    "device_id",
    "wave",
    "status",
    "reason",
  ),
  ...memberColumns<RolloutTarget>("previous_config_id", "assigned_at", "applied_at", "failed_at"),
  ...memberColumns<RolloutTarget>("condition", "condition_began_at", "detail", "reverted_at"),
];

/** `GET /v1/collector/rollouts/{id}/targets/export.csv`: every host of a rollout under the list's filter; audited. */
export const exportRolloutTargetsRoute = (
  core: Pick<Core, "config" | "db" | "clock" | "entropy">,
) =>
  csvRoute(core, {
    path: "/v1/collector/rollouts/:id/targets/export.csv",
    operationId: "exportRolloutTargets",
    summary: "All hosts of a rollout under the list's filters as CSV, in the order of the waves",
    params: IdParams,
    query: v.strictObject(targetFilterFields),
    problems: ["not_found"],
    open: async ({ params, query: asked, caller: operator, origin }) => {
      const targets = await exportTargets(core, targetFilterOf(params.id, asked), {
        operator,
        origin,
        asked,
      });
      return {
        name: "rollout-hosts",
        asked: { rollout: params.id, ...asked },
        columns,
        batches: viewsOf(targets, targetView),
      };
    },
  });
