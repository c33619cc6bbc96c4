import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  browseRollouts,
  browseTargets,
  describeRollout,
  exportTargets,
} from "#functions/domain/rollout/browse.ts";
import { controlRollout, type RolloutControl } from "#functions/domain/rollout/control.ts";
import { csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import { IdParams, resource, severityField } from "#functions/http/resource.ts";
import type { TargetFilter } from "#functions/store/rollout/rollouts.ts";
import {
  Rollout,
  RolloutList,
  RolloutTarget,
  RolloutTargetPage,
  wavesMax,
} from "#proto/rollout/rollout.ts";
import { rolloutStates, targetStatuses } from "#proto/rollout/vocabulary.ts";
import { Id, Prose, QueryInteger, Repeatable } from "#proto/values.ts";
import { rolloutView, targetView } from "./rollout.ts";

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
export const rolloutReports = (core: ReadCore) =>
  resource(core, "/v1/collector/rollouts", ({ list, get }) => ({
    listRollouts: list(
      "",
      "Rollouts with their waves, newest first or by severity; `state` is repeatable; `identity_id` selects those that have a host as a target",
      {
        filter: { ...filterFields, ...severityField },
        returns: ["A page of rollouts", RolloutList],
        find: (page, { query }) => {
          const { state: states, config_id: configId, identity_id: identityId, sort } = query;
          return browseRollouts(core, { states, configId, identityId }, { ...page, sort });
        },
        view: rolloutView,
      },
    ),

    getRollout: get("/:id", "One rollout with its waves and the evidence of its newest breach", {
      returns: ["The rollout", Rollout],
      handle: async ({ params }) => rolloutView(await describeRollout(core, params.id)),
    }),

    listRolloutTargets: list(
      "/:id/targets",
      "The hosts of a rollout in the order of the waves; `status` is repeatable",
      {
        filter: targetFilterFields,
        listName: "rollout-targets",
        returns: ["A page of targets", RolloutTargetPage],
        find: (page, { params, query }) =>
          browseTargets(core, targetFilterOf(params.id, query), page),
        view: targetView,
      },
    ),
  }));

/** The routes that control a rollout. */
export const rolloutControls = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/rollouts", ({ act }) => {
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
        handle: async ({ params, body: { reason }, ...by }) =>
          rolloutView(
            await controlRollout(core, by, { rolloutId: params.id, control: change, reason }),
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

const columns = memberColumns<RolloutTarget>(...v.keyof(RolloutTarget).options);

/** `GET /v1/collector/rollouts/{id}/targets/export.csv`: every host of a rollout under the list's filter; audited. */
export const exportRolloutTargetsRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/rollouts/:id/targets/export.csv",
    operationId: "exportRolloutTargets",
    summary: "All hosts of a rollout under the list's filters as CSV, in the order of the waves",
    params: IdParams,
    query: v.strictObject(targetFilterFields),
    problems: ["not_found"],
    open: async ({ params, query }, audit) => {
      const targets = await exportTargets(core, targetFilterOf(params.id, query), audit);
      return {
        name: "rollout-hosts",
        asked: { rollout: params.id, ...query },
        columns,
        batches: viewsOf(targets, targetView),
      };
    },
  });
