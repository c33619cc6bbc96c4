import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import {
  type Assigned,
  assignConfig,
  assignConfigToMany,
  clearConfig,
  rollBackConfig,
  rollBackMany,
  rollbackOutcomes,
  rollbackTargets,
} from "#functions/domain/config/desired-config.ts";
import { reasonBody, resource } from "#functions/http/resource.ts";
import { ReasonCode, viewOf } from "#functions/http/route.ts";
import { Id, IsoTimestamp, QueryFlag, TextOrNull } from "#proto/values.ts";

const AssignmentView = v.strictObject({
  identity_id: Id,
  config_id: Id,
  config_hash: v.string(),
  assigned_at: IsoTimestamp,
  assigned_by: v.string(),
  previous_config_id: v.nullable(Id),
});

/** The identities of one request, of which each has its own result. */
const IdentityIds = v.pipe(
  v.array(Id, "must be an array of ids"),
  v.minLength(1, "must have at least one entry"),
  v.maxLength(1000, "must have at most 1000 entries"),
);

const ResultsView = v.strictObject({
  results: v.array(
    v.strictObject({
      identity_id: Id,
      outcome: v.picklist(["assigned", "unchanged", "not_found", "revoked"]),
    }),
  ),
});

/** The routes of the config that a host should run. */
export const desiredConfigRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/collector", ({ put, remove, act }) => ({
    setDesiredConfig: put(
      "/identities/:id/desired-config",
      "Assign a published config to an identity; idempotent",
      {
        body: v.strictObject({
          config_id: Id,
          expected_current_config_id: v.optional(v.nullable(Id)),
        }),
        bodyExample: { config_id: "01920000-0000-7000-8000-000000000001" },
        returns: ["The assignment", AssignmentView],
        problems: ["conflict", "config_kind_mismatch", "config_key_unknown"],
        handle: async ({ params, body, ...by }) => {
          const { config_id: configId, expected_current_config_id: expected } = body;
          const change = {
            identityId: params.id,
            configId,
            ...(expected === undefined ? {} : { expectedCurrentConfigId: expected }),
          };
          return assignmentView(await assignConfig(core, by, change));
        },
      },
    ),

    clearDesiredConfig: remove(
      "/identities/:id/desired-config",
      "Remove the assigned config; idempotent",
      {
        returns: ["Nothing is assigned"],
        handle: ({ params, ...by }) => clearConfig(core, by, { identityId: params.id }),
      },
    ),

    rollBackDesiredConfig: act(
      "/identities/:id/desired-config/rollback",
      "Assign the newest stored config that has the last known good hash of the newest heartbeat",
      {
        ...reasonBody("bad_rollout"),
        returns: ["The assignment", AssignmentView],
        problems: ["no_last_known_good", "last_known_good_not_stored", "conflict"],
        handle: async ({ params, body, ...by }) => {
          const change = { identityId: params.id, ...body };
          return assignmentView(await rollBackConfig(core, by, change));
        },
      },
    ),

    assignCollectorConfig: act(
      "/configs/:id/assignments",
      "Assign a config to many identities; a result for each",
      {
        body: v.strictObject({ identity_ids: IdentityIds }),
        bodyExample: { identity_ids: ["01920000-0000-7000-8000-000000000001"] },
        returns: ["The outcome of each, in the order of the request", ResultsView],
        problems: ["config_kind_mismatch", "config_key_unknown"],
        handle: async ({ params, body, ...by }) => {
          const change = { configId: params.id, identityIds: body.identity_ids };
          return resultsView({ results: await assignConfigToMany(core, by, change) });
        },
      },
    ),
  }));

const assignmentOf = viewOf(AssignmentView);
const resultsView = viewOf(ResultsView);

const assignmentView = ({ assignment, config: { configHash }, previousConfigId }: Assigned) =>
  assignmentOf({ ...assignment, configHash, previousConfigId });

/** The route that rolls up to 1,000 hosts back to their last known good or their previous config. */
export const configRollbacks = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/config-rollbacks", ({ act }) => ({
    rollBackCollectorConfigs: act(
      "",
      "Give many identities their last known good or previous config; a result for each. dry_run=true changes nothing",
      {
        query: v.strictObject({ dry_run: QueryFlag }),
        body: RollbackBody,
        bodyExample: {
          identity_ids: ["01920000-0000-7000-8000-000000000001"],
          to: "previous",
          reason_code: "bad_rollout",
        },
        returns: [
          "The outcome of each, in the order of the request, with its config",
          RollbacksView,
        ],
        handle: async ({ query, body, ...by }) => {
          const change = {
            identityIds: body.identity_ids,
            to: body.to,
            reasonCode: body.reason_code ?? null,
            dryRun: query.dry_run,
          };
          return rollbacksView({ results: await rollBackMany(core, by, change) });
        },
      },
    ),
  }));

const RollbackBody = v.strictObject({
  identity_ids: IdentityIds,
  to: v.optional(
    v.picklist(rollbackTargets, `must be one of ${rollbackTargets.join(", ")}`),
    "last_known_good",
  ),
  reason_code: v.optional(ReasonCode),
});

const RollbacksView = v.strictObject({
  results: v.array(
    v.strictObject({
      identity_id: Id,
      outcome: v.picklist(rollbackOutcomes),
      config: v.nullable(v.strictObject({ id: Id, name: TextOrNull, config_hash: v.string() })),
    }),
  ),
});

const rollbacksView = viewOf(RollbacksView);
