import { resource } from "#functions/http/resource.ts";
import { NowReport } from "#proto/now/report.ts";
import { createNowReports, type NowCore } from "../domain/now/report-now.ts";

/** The route that reports what needs a person now (docs/fleet-page.md). */
export const nowReports = (core: NowCore) => {
  const report = createNowReports(core);
  return resource(core, "/v1/now", ({ get }) => ({
    reportNow: get("", "What needs a person now, the worst first, with a line for each cause", {
      returns: ["The lines, and figures of the last 24 hours", NowReport],
      handle: async () => await report(null),
    }),
  }));
};
