import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { reportVolume } from "#functions/domain/fleet/volume.ts";
import { scope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { HostVolume, volumeKinds } from "#proto/fleet-health/volume.ts";
import { Id } from "#proto/values.ts";

/** `GET /v1/collector/health/{identity_id}/volume`: what core stored for a collector in the last two days. */
export const healthVolumeRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/health/:identity_id/volume",
    operationId: "getFleetVolume",
    summary:
      "The envelopes and payload bytes that core stored for a collector in the last 48 hours, by hour and kind",
    guard: scope(core, "audit"),
    params: v.object({ identity_id: Id }),
    replies: { 200: { description: "The hours", schema: HostVolume } },
    problems: ["not_found"],
    handle: async ({ params }) => {
      const { now, hours } = await reportVolume(core, params.identity_id);
      const body: HostVolume = {
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
      return { status: 200, body };
    },
  });
