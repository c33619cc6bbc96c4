import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import {
  rollBackMany,
  rollbackOutcomes,
  rollbackTargets,
} from "#functions/domain/config/desired-config.ts";
import { resource } from "#functions/http/resource.ts";
import { ReasonCode, viewOf } from "#functions/http/route.ts";
import { Id, QueryFlag, TextOrNull } from "#proto/values.ts";

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
        returns: ["The outcome of each, in the order of the request, with its config", ResultsView],
        handle: async ({ query, body, ...by }) => {
          const change = {
            identityIds: body.identity_ids,
            to: body.to,
            reasonCode: body.reason_code ?? null,
            dryRun: query.dry_run,
          };
          return resultsView({ results: await rollBackMany(core, by, change) });
        },
      },
    ),
  }));

const RollbackBody = v.strictObject({
  identity_ids: v.pipe(
    v.array(Id, "must be an array of ids"),
    v.minLength(1, "must have at least one entry"),
    v.maxLength(1000, "must have at most 1000 entries"),
  ),
  to: v.optional(
    v.picklist(rollbackTargets, `must be one of ${rollbackTargets.join(", ")}`),
    "last_known_good",
  ),
  reason_code: v.optional(ReasonCode),
});

const ResultsView = v.strictObject({
  results: v.array(
    v.strictObject({
      identity_id: Id,
      outcome: v.picklist(rollbackOutcomes),
      config: v.nullable(v.strictObject({ id: Id, name: TextOrNull, config_hash: v.string() })),
    }),
  ),
});

const resultsView = viewOf(ResultsView);
