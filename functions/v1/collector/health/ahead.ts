import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { createAheadReports } from "#functions/domain/fleet/look-ahead.ts";
import { scope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { aheadHoursMax, FleetAhead } from "#proto/fleet-health/ahead.ts";
import { aheadHours } from "#proto/fleet-health/vocabulary.ts";
import { QueryInteger } from "#proto/values.ts";

/** `GET /v1/collector/health/ahead`: what runs out within some hours unless somebody acts. */
export const healthAheadRoute = (
  core: Parameters<typeof createAheadReports>[0] & Pick<Core, "config" | "db">,
) => {
  const lookAhead = createAheadReports(core);
  return route({
    method: "GET",
    path: "/v1/collector/health/ahead",
    operationId: "lookAhead",
    summary:
      "Certificates that expire, queues that fill, tokens that end and telemetry that grows within some hours",
    guard: scope(core, "audit"),
    query: v.strictObject({
      hours: v.optional(QueryInteger(1, aheadHoursMax), String(aheadHours)),
    }),
    replies: {
      200: {
        description: "The certificates, queues, tokens and room that run out",
        schema: FleetAhead,
      },
    },
    handle: async ({ query }) => ({ status: 200, body: await lookAhead(query.hours) }),
  });
};
