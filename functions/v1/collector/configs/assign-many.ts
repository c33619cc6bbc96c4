import * as v from "valibot";
import { Id } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { assignConfigToMany } from "../../../domain/config/desired-config.ts";
import { scope } from "../../../http/guards.ts";
import { IdParams } from "../../../http/resource.ts";
import { route } from "../../../http/route.ts";

const AssignBody = v.strictObject({
  identity_ids: v.pipe(
    v.array(Id, "must be an array of ids"),
    v.minLength(1, "must have at least one entry"),
    v.maxLength(1000, "must have at most 1000 entries"),
  ),
});

const ResultsView = v.strictObject({
  results: v.array(
    v.strictObject({ identity_id: Id, outcome: v.picklist(["assigned", "unchanged", "not_found", "revoked"]) }),
  ),
});

/** `POST /v1/collector/configs/{id}/assignments`: assigns the config to up to 1,000 hosts. */
export const assignConfigToManyRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/configs/:id/assignments",
    operationId: "assignCollectorConfig",
    summary: "Assign a config to many identities; a result for each",
    guard: scope(core, "admin"),
    params: IdParams,
    body: AssignBody,
    bodyExample: { identity_ids: ["01920000-0000-7000-8000-000000000001"] },
    replies: { 200: { description: "The outcome of each, in the order of the request", schema: ResultsView } },
    problems: ["not_found"],
    handle: async ({ params, body, caller, origin }) => {
      const change = { configId: params.id, identityIds: body.identity_ids };
      const results = await assignConfigToMany(core, caller, change, origin);
      return {
        status: 200,
        body: { results: results.map(({ identityId, outcome }) => ({ identity_id: identityId, outcome })) },
      };
    },
  });
