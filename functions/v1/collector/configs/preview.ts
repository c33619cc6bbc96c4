import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { previewRollout } from "#functions/domain/rollout/preview.ts";
import { resource } from "#functions/http/resource.ts";
import { RolloutPreview, RolloutQuery } from "#proto/rollout/rollout.ts";

/** The route that previews a rollout of a config. */
export const rolloutPreviews = (core: ReadCore) =>
  resource(core, "/v1/collector/configs", ({ get }) => ({
    previewRollout: get(
      "/:id/preview",
      "The preview of a rollout: the hosts that it would change, and those that it would skip with the reason",
      {
        query: v.strictObject({ filter: v.optional(RolloutQuery, "") }),
        returns: ["The preview", RolloutPreview],
        handle: async ({ params, query }) =>
          await previewRollout(core, { configId: params.id, query: query.filter }),
      },
    ),
  }));
