import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  browseRollouts,
  browseTargets,
  describeRollout,
  exportTargets,
} from "#functions/domain/rollout/browse.ts";
import { controlRollout, type RolloutControl } from "#functions/domain/rollout/control.ts";
import { createRollout } from "#functions/domain/rollout/create.ts";
import { previewRollout } from "#functions/domain/rollout/preview.ts";
import { csvRoute, memberColumns, viewsOf } from "#functions/http/csv.ts";
import { IdParams, resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import type {
  DescribedRollout,
  TargetFilter,
  TargetListRow,
} from "#functions/store/rollout/rollouts.ts";
import {
  Rollout,
  RolloutBody,
  RolloutList,
  RolloutPreview,
  RolloutQuery,
  RolloutTarget,
  RolloutTargetPage,
  wavesMax,
} from "#proto/rollout/rollout.ts";
import { rolloutReasons, rolloutStates, targetStatuses } from "#proto/rollout/vocabulary.ts";
import { Id, Prose, QueryInteger, SomeOf } from "#proto/values.ts";
import { outagesView } from "../outages.ts";

const filterFields = {
  state: v.optional(SomeOf(rolloutStates, "state", "rollout")),
  config_id: v.optional(Id),
  identity_id: v.optional(Id),
};

/** The routes that read rollouts, on the pool of reports. */
export const rolloutReports = (core: ReadCore) =>
  resource(core, "/v1/collector/rollouts", ({ list, get }) => ({
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

/** The routes that assign a config to the hosts of a filter, wave by wave, and control that. */
export const rolloutChanges = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/rollouts", ({ post, act }) => {
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
      createRollout: post(
        "",
        "Roll a config out to the hosts of a filter, wave by wave; the hosts are those that match now",
        {
          body: RolloutBody,
          bodyExample: creationExample,
          returns: ["The rollout", Rollout],
          problems: [
            "not_found",
            "rollout_overlap",
            "rollout_waves_invalid",
            "rollout_without_targets",
            "rollout_config_unparsable",
          ],
          handle: async ({ body, ...by }) => {
            const row = await createRollout(core, by, body);
            return rolloutView(row);
          },
        },
      ),

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

const creationExample = {
  config_id: "01920000-0000-7000-8000-000000000001",
  filter: "label.env:prod",
  waves: [
    { percent: 5, soak_seconds: 600 },
    { percent: 100, soak_seconds: 600 },
  ],
  gate: {
    max_failed_percent: 5,
    states: ["config_invalid", "stale", "rolled_back", "queue_at_risk", "not_applied"],
  },
  on_breach: "pause",
};

const ControlBody = v.strictObject({ reason: v.optional(v.nullable(Prose(500)), null) });

const targetFilterFields = {
  wave: v.optional(QueryInteger(1, wavesMax)),
  status: v.optional(SomeOf(targetStatuses, "status", "target")),
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

/** The route that previews a rollout of a config. */
export const rolloutPreviews = (core: ReadCore) =>
  resource(core, "/v1/collector/configs", ({ get }) => ({
    previewRollout: get(
      "/:id/preview",
      "The preview of a rollout: the hosts that it would change, and those that it would skip with the reason",
      {
        query: v.strictObject({ filter: v.optional(RolloutQuery, "") }),
        returns: ["The preview", RolloutPreview],
        handle: async ({ params, query }) =>
          await previewRollout(core, { configId: params.id, query: query.filter }),
      },
    ),
  }));

const rolloutOf = viewOf(Rollout);
const targetOf = viewOf(RolloutTarget);

const counted = ["targets", "revertedFailed", ...targetStatuses] as const;

/** Returns the view of a rollout, with the outages of core if they are known. */
const rolloutView = (row: DescribedRollout & { outages?: readonly Outage[] }): Rollout => {
  const sums = counted.map(
    (count) => [count, row.waves.reduce((sum, wave) => sum + wave[count], 0)] as const,
  );
  const code = rolloutReasons.find((each) => each === row.reasonCode);
  return rolloutOf({
    ...row,
    ...(Object.fromEntries(sums) as Record<(typeof counted)[number], number>),
    config: { id: row.configId, name: row.configName, configHash: row.configHash },
    reason: code === undefined ? null : { code, detail: row.reason },
    waves: row.waves.map((wave) => ({ ...wave, comparison: wave.comparison ?? undefined })),
    gate: {
      maxFailedPercent: row.maxFailedPercent,
      states: row.conditions,
      worseThanControl: row.stopsIfWorse,
    },
    outages: outagesView(row.outages ?? []).outages,
  });
};

/** Returns the view of a target. */
const targetView = (row: TargetListRow): RolloutTarget =>
  targetOf({ ...row, detail: row.conditionDetail });
