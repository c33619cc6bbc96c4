import { AssignmentBatch, ConfigDetail } from "../../../../proto/fleet-health/config-report.ts";
import type { Core } from "../../../core.ts";
import { describeConfig } from "../../../domain/config/config-reports.ts";
import { scope } from "../../../http/guards.ts";
import { IdParams } from "../../../http/resource.ts";
import { route } from "../../../http/route.ts";
import { viewOf } from "../../../http/view-of.ts";
import { listedConfigView } from "./config.ts";

const minuteMs = 60_000;
const batchView = viewOf(AssignmentBatch);

/** `GET /v1/collector/configs/{id}`: one config, its hosts and assignments; with `Accept: application/yaml` the published bytes. */
export const getConfigRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/configs/:id",
    operationId: "getCollectorConfig",
    summary:
      "One published config, its hosts and its newest batches of assignments; Accept: application/yaml returns the published bytes",
    guard: scope(core, "audit"),
    params: IdParams,
    replies: { 200: { description: "The config", schema: ConfigDetail } },
    problems: ["not_found"],
    handle: async ({ params, accept }) => {
      const config = await describeConfig(core, params.id);
      if (accept.includes("application/yaml")) {
        return { status: 200, text: { type: "application/yaml", content: config.yaml } };
      }
      const body: ConfigDetail = {
        generated_at: config.now.toISOString(),
        ...listedConfigView(config),
        yaml: config.yaml,
        batches: config.batches.map((batch) =>
          batchView({ ...batch, until: new Date(batch.from.getTime() + minuteMs) }),
        ),
      };
      return { status: 200, body };
    },
  });
