import { desiredConfig } from "#functions/domain/config/desired-config.ts";
import { answerDiag } from "#functions/domain/fleet/diags.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { ConfigDesiredRequest, ConfigDesiredResponse } from "#proto/management/config-desired.ts";
import { DiagRequest, DiagResponse } from "#proto/management/diag.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";

const configView = viewOf(ConfigDesiredResponse);

/** The routes at which a host fetches the config that an admin assigned to it, and answers core's request for its diagnostics. */
export const managementRoutes = (core: ManagementCore) =>
  resource(core, "/v1/collector", ({ act }) => ({
    fetchDesiredConfig: act(
      "/config/desired",
      "Fetch the config assigned to the calling collector",
      {
        by: collector(core, "config_desired"),
        body: ConfigDesiredRequest,
        returns: ["The assignment, or null", ConfigDesiredResponse],
        problems: managementProblems,
        handle: async ({ body, caller, origin }) => {
          const current = await desiredConfig(core, caller, origin);
          const unchanged = current?.configId === body.current_config_id;
          const yaml = unchanged ? undefined : current?.yaml;
          return configView({ assignment: current && { ...current, unchanged, yaml } });
        },
      },
    ),

    sendDiag: act(
      "/diag",
      "Send the diagnostics that core has requested of the calling collector, once",
      {
        by: collector(core, "diag"),
        body: DiagRequest,
        returns: ["Stored for a day", DiagResponse],
        problems: [...managementProblems, "diag_not_requested"],
        handle: async ({ body, caller, origin }) => {
          const receivedAt = await answerDiag(core, caller, body, origin);
          return { received_at: receivedAt.toISOString() };
        },
      },
    ),
  }));
