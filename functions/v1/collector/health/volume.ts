import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { reportVolume } from "#functions/domain/fleet/volume.ts";
import { resource } from "#functions/http/resource.ts";
import { HostVolume, volumeKinds } from "#proto/fleet-health/volume.ts";
import { Id } from "#proto/values.ts";

/** The route that reports what core stored for a collector in the last two days. */
export const hostVolumes = (core: ReadCore) =>
  resource(core, "/v1/collector/health", ({ get }) => ({
    getFleetVolume: get(
      "/:identity_id/volume",
      "The envelopes and payload bytes that core stored for a collector in the last 48 hours, by hour and kind",
      {
        params: v.object({ identity_id: Id }),
        returns: ["The hours", HostVolume],
        problems: ["not_found"],
        handle: async ({ params }) => {
          const { now, hours } = await reportVolume(core, params.identity_id);
          return {
            generated_at: new Date(now).toISOString(),
            identity_id: params.identity_id,
            hours: hours.map(({ from, counts }) => ({
              from: new Date(from).toISOString(),
              kinds: volumeKinds.flatMap((kind) => {
                const count = counts.get(kind);
                return count
                  ? [{ kind, envelopes: count.envelopes, payload_bytes: count.payloadBytes }]
                  : [];
              }),
            })),
          };
        },
      },
    ),
  }));
