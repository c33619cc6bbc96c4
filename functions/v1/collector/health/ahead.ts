import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { createAheadReports } from "#functions/domain/fleet/look-ahead.ts";
import { resource } from "#functions/http/resource.ts";
import { aheadHoursMax, FleetAhead } from "#proto/fleet-health/ahead.ts";
import { aheadHours } from "#proto/fleet-health/vocabulary.ts";
import { QueryInteger } from "#proto/values.ts";

/** The route that lists what expires or fills up within some hours unless somebody acts. */
export const aheadReports = (
  core: Parameters<typeof createAheadReports>[0] & Pick<Core, "config" | "db">,
) => {
  const lookAhead = createAheadReports(core);
  return resource(core, "/v1/collector/health", ({ get }) => ({
    lookAhead: get(
      "/ahead",
      "Certificates that expire, queues that fill, tokens that end and telemetry that grows within some hours",
      {
        query: v.strictObject({
          hours: v.optional(QueryInteger(1, aheadHoursMax), String(aheadHours)),
        }),
        returns: ["The certificates, queues, tokens and room that run out", FleetAhead],
        handle: async ({ query }) => await lookAhead(query.hours),
      },
    ),
  }));
};
