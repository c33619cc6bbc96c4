import { desiredConfig } from "#functions/domain/config/fetch-desired.ts";
import { route } from "#functions/http/route.ts";
import { ConfigDesiredRequest, ConfigDesiredResponse } from "#proto/management/config-desired.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";

/** `POST /v1/collector/config/desired`: the config that an admin assigned to the calling host. */
export const configDesiredRoute = (core: ManagementCore) =>
  route({
    method: "POST",
    path: "/v1/collector/config/desired",
    operationId: "fetchDesiredConfig",
    summary: "Fetch the config assigned to the calling collector",
    guard: collector(core, "config_desired"),
    body: ConfigDesiredRequest,
    replies: { 200: { description: "The assignment, or null", schema: ConfigDesiredResponse } },
    problems: managementProblems,
    handle: async ({ body, caller, origin }) => {
      const current = await desiredConfig(core, caller, origin);
      const unchanged = current?.configId === body.current_config_id;
      const view: ConfigDesiredResponse = {
        assignment: current && {
          config_id: current.configId,
          config_hash: current.configHash,
          assigned_at: current.assignedAt.toISOString(),
          unchanged,
          ...(unchanged ? {} : { yaml: current.yaml }),
        },
      };
      return { status: 200, body: view };
    },
  });
