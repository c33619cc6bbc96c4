import * as v from "valibot";
import type { RolloutTarget } from "../../../../proto/rollout/rollout.ts";
import type { Core } from "../../../core.ts";
import { exportTargets } from "../../../domain/rollout/targets.ts";
import { csvRoute, memberColumns, viewsOf } from "../../../http/csv.ts";
import { IdParams } from "../../shapes.ts";
import { targetFilterFields, targetFilterOf } from "./list-targets.ts";
import { targetView } from "./rollout.ts";

const columns = [
  ...memberColumns<RolloutTarget>("identity_id", "identity", "device_id", "wave", "status", "reason"),
  ...memberColumns<RolloutTarget>("previous_config_id", "assigned_at", "applied_at", "failed_at"),
  ...memberColumns<RolloutTarget>("condition", "condition_began_at", "detail", "reverted_at"),
];

/** `GET /v1/collector/rollouts/{id}/targets/export.csv`: every host of a rollout under the list's filter; audited. */
export const exportRolloutTargetsRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  csvRoute(core, {
    path: "/v1/collector/rollouts/:id/targets/export.csv",
    operationId: "exportRolloutTargets",
    summary: "All hosts of a rollout under the list's filters as CSV, in the order of the waves",
    params: IdParams,
    query: v.strictObject(targetFilterFields),
    problems: ["not_found"],
    open: async ({ params, query: asked, caller: operator, origin }) => {
      const targets = await exportTargets(core, targetFilterOf(params.id, asked), { operator, origin, asked });
      return {
        name: "rollout-hosts",
        asked: { rollout: params.id, ...asked },
        columns,
        batches: viewsOf(targets, targetView),
      };
    },
  });
