import { shareNextRun } from "../../../kit/share-next-run.ts";
import { countFactors } from "../../store/fleet/factors.ts";
import { createHostSources } from "../../store/fleet/host-sources.ts";
import type { FleetRules } from "../../store/fleet/rows.ts";
import { type RankedFactor, rankFactors } from "./rank-factors.ts";
import type { ViewQuery } from "./report.ts";
import { requireHistory } from "./require-history.ts";
import type { ViewCore } from "./rules.ts";
import { readViewRules } from "./view-rules.ts";

/** What the hosts of a filter have more often than all others. */
export interface CommonFactors {
  rules: FleetRules;
  selected: number;
  others: number;
  /** Values that were compared. */
  compared: number;
  /** Sources of telemetry are being read, and not compared. */
  readsSources: boolean;
  factors: RankedFactor[];
}

/** Creates the function that returns what the hosts of a filter have in common. Concurrent calls with one filter share it. Throws as reports do. */
export const createFactorReports = (core: ViewCore) => {
  const hostSources = createHostSources(core);
  return shareNextRun(
    async ({ filter, at }: ViewQuery): Promise<CommonFactors> => {
      const { rules, columns } = await readViewRules(core, at);
      requireHistory({ filter }, rules);
      const { selected, all, counts, readsSources } = await countFactors(
        core.db,
        rules,
        filter,
        columns,
        hostSources,
      );
      const factors = rankFactors(counts, { selected, all });
      return {
        rules,
        selected,
        others: all - selected,
        compared: counts.length,
        readsSources,
        factors,
      };
    },
    (query) => JSON.stringify(query),
    core.viewsShared,
  );
};
