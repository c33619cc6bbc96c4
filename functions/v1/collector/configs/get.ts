import type { Core } from "../../../core.ts";
import { getConfig } from "../../../domain/config/publish.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams } from "../../shapes.ts";
import { ConfigWithTextView, configView } from "./config.ts";

/** `GET /v1/collector/configs/{id}`: one config; with `Accept: application/yaml` the published bytes. */
export const getConfigRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/configs/:id",
    operationId: "getCollectorConfig",
    summary: "One published config; Accept: application/yaml returns the published bytes",
    guard: scope(core, "admin"),
    params: IdParams,
    replies: { 200: { description: "The config", schema: ConfigWithTextView } },
    problems: ["not_found"],
    handle: async ({ params, accept }) => {
      const config = await getConfig(core, params.id);
      if (accept.includes("application/yaml")) {
        return { status: 200, text: { type: "application/yaml", content: config.yaml } };
      }
      return { status: 200, body: { ...configView(config), yaml: config.yaml } };
    },
  });
