import type { Core } from "#functions/core.ts";
import { resource } from "#functions/http/resource.ts";
import { ClaimBody, LineClaim, NowReport } from "#proto/now/report.ts";
import { claimView, releaseLine, takeLine } from "../domain/now/claims.ts";
import { createNowFinder, type NowCore, reportNow } from "../domain/now/report-now.ts";
import { heldByView } from "./collector/outages.ts";

/** The routes of what needs a person now, and of who has taken which line (docs/fleet-page.md). */
export const nowRoutes = (core: NowCore & Pick<Core, "reports" | "entropy">) => {
  const reports = { ...core, db: core.reports };
  const find = createNowFinder(reports);
  return resource(core, "/v1/now", ({ get, post, remove }) => ({
    reportNow: get("", "The causes that need a person now, worst first, a line for each", {
      returns: ["The lines, and figures of the last 24 hours", NowReport],
      handle: async () => {
        const { hold, ...report } = await reportNow(reports, await find());
        return { ...report, ...heldByView(hold) };
      },
    }),

    takeLine: post("/claims", "Take a line with a note, until its cause has ended", {
      body: ClaimBody,
      bodyExample: { key: "state:stale", note: "the network team is on it" },
      returns: ["The claim on the line", LineClaim],
      problems: ["not_found", "conflict"],
      handle: async ({ body, ...by }) => claimView(await takeLine(core, by, body, find)),
    }),

    releaseLine: remove("/claims/:id", "Release a line", {
      returns: ["Nobody has the line"],
      handle: ({ params, ...by }) => releaseLine(core, by, params.id),
    }),
  }));
};
