import type { ReadCore } from "#functions/core.ts";
import { reportTrends } from "#functions/domain/fleet/report-trends.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { FleetTrends, trendSteps } from "#proto/fleet-health/trends.ts";

/** The route of the lines that pages show under the figures of the whole fleet. */
export const trendReports = (core: ReadCore) =>
  resource(core, "/v1/collector/health", ({ get }) => ({
    reportFleetTrends: get(
      "/trends",
      "Figures of the whole fleet in each quarter of an hour of the last 24 hours",
      {
        returns: ["The figures", FleetTrends],
        handle: async () =>
          trendsView({
            ...(await reportTrends(core)),
            generatedAt: new Date(core.clock.now()),
            stepSeconds: trendSteps.stepSeconds,
          }),
      },
    ),
  }));

const trendsView = viewOf(FleetTrends);
