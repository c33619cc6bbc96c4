import type { Core } from "#functions/core.ts";
import { rfc3339 } from "#kit/clock.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { type NowReport, nowKinds, nowLinesMax } from "#proto/now/report.ts";
import { findWatchLines } from "./firing-watches.ts";
import type { FoundLine } from "./lines.ts";

/** The parts of core that report what needs a person. */
export type NowCore = Pick<Core, "config" | "db" | "clock" | "viewsShared">;

/** Creates the function that reports what needs a person now (docs/fleet-page.md). Concurrent calls share a result. */
export const createNowReports = (core: NowCore) =>
  shareNextRun(
    async (_: null): Promise<NowReport> => {
      const lines = (await findWatchLines(core)).sort(worstFirst);
      return {
        generated_at: rfc3339(core.clock.now()),
        lines: lines.slice(0, nowLinesMax).map((line) => ({ ...line, taken: null })),
        lines_other: Math.max(0, lines.length - nowLinesMax),
        strip: [],
        hosts: null,
      };
    },
    String,
    core.viewsShared,
  );

/** Orders critical lines before others, then by kind, then the larger count, then the older. */
const worstFirst = (a: FoundLine, b: FoundLine) =>
  Number(b.severity === "critical") - Number(a.severity === "critical") ||
  nowKinds.indexOf(a.kind) - nowKinds.indexOf(b.kind) ||
  (b.count ?? 0) - (a.count ?? 0) ||
  (a.since ?? "").localeCompare(b.since ?? "") ||
  a.key.localeCompare(b.key);
