import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { previewRollout } from "#functions/domain/rollout/preview.ts";
import { scope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { RolloutPreview, RolloutQuery } from "#proto/rollout/rollout.ts";

/** `GET /v1/collector/configs/{id}/preview`: what a rollout of the config would meet. */
export const previewRolloutRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/configs/:id/preview",
    operationId: "previewRollout",
    summary:
      "The preview of a rollout: the hosts that it would change, and those that it would skip with the reason",
    guard: scope(core, "audit"),
    params: IdParams,
    query: v.strictObject({ filter: v.optional(RolloutQuery, "") }),
    replies: { 200: { description: "The preview", schema: RolloutPreview } },
    problems: ["not_found"],
    handle: async ({ params, query }) => ({
      status: 200,
      body: await previewRollout(core, { configId: params.id, query: query.filter }),
    }),
  });
