import * as v from "valibot";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { type Assigned, assignConfig, clearConfig, rollBackConfig } from "../../../domain/config/desired-config.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { viewOf } from "../../../http/view-of.ts";
import { IdParams, ReasonBody } from "../../shapes.ts";

const AssignmentView = v.strictObject({
  identity_id: Id,
  config_id: Id,
  config_hash: v.string(),
  assigned_at: IsoTimestamp,
  assigned_by: v.string(),
  previous_config_id: v.nullable(Id),
});

const view = viewOf(AssignmentView);

const assignmentView = ({ assignment, config: { configHash }, previousConfigId }: Assigned) =>
  view({ ...assignment, configHash, previousConfigId });

const path = "/v1/collector/identities/:id/desired-config";
type Needs = Pick<Core, "config" | "db" | "clock" | "entropy">;

/** `PUT /v1/collector/identities/{id}/desired-config`: assigns a config to a host. */
export const assignConfigRoute = (core: Needs) =>
  route({
    method: "PUT",
    path,
    operationId: "setDesiredConfig",
    summary: "Assign a published config to an identity; idempotent",
    guard: scope(core, "admin"),
    params: IdParams,
    body: v.strictObject({ config_id: Id, expected_current_config_id: v.optional(v.nullable(Id)) }),
    bodyExample: { config_id: "01920000-0000-7000-8000-000000000001" },
    replies: { 200: { description: "The assignment", schema: AssignmentView } },
    problems: ["not_found", "conflict"],
    handle: async ({ params, body, caller, origin }) => {
      const { config_id: configId, expected_current_config_id: expected } = body;
      const change = {
        identityId: params.id,
        configId,
        ...(expected === undefined ? {} : { expectedCurrentConfigId: expected }),
      };
      return { status: 200, body: assignmentView(await assignConfig(core, caller, change, origin)) };
    },
  });

/** `DELETE /v1/collector/identities/{id}/desired-config`: the host keeps its own config. */
export const clearConfigRoute = (core: Needs) =>
  route({
    method: "DELETE",
    path,
    operationId: "clearDesiredConfig",
    summary: "Remove the assigned config; idempotent",
    guard: scope(core, "admin"),
    params: IdParams,
    replies: { 204: { description: "Nothing is assigned" } },
    problems: ["not_found"],
    handle: async ({ params, caller, origin }) => {
      await clearConfig(core, caller, { identityId: params.id }, origin);
      return { status: 204 };
    },
  });

/** `POST /v1/collector/identities/{id}/desired-config/rollback`: assigns the last known good config of the host. */
export const rollBackConfigRoute = (core: Needs) =>
  route({
    method: "POST",
    path: `${path}/rollback`,
    operationId: "rollBackDesiredConfig",
    summary: "Assign the newest stored config that has the last known good hash of the newest heartbeat",
    guard: scope(core, "admin"),
    params: IdParams,
    body: ReasonBody,
    bodyAbsentAs: {},
    bodyExample: { reason_code: "bad_rollout" },
    replies: { 200: { description: "The assignment", schema: AssignmentView } },
    problems: ["not_found", "no_last_known_good", "last_known_good_not_stored", "conflict"],
    handle: async ({ params, body, caller, origin }) => {
      const change = { identityId: params.id, reasonCode: body.reason_code ?? null };
      return { status: 200, body: assignmentView(await rollBackConfig(core, caller, change, origin)) };
    },
  });
