import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import { type CountedFactor, countFactors } from "#functions/store/fleet/factors.ts";
import { createHostSources } from "#functions/store/fleet/host-sources.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import type { ViewQuery } from "./report.ts";
import type { ViewCore } from "./rules.ts";
import { readFleetView } from "./view-rules.ts";

/** A value that the selection has more often than the others. */
interface RankedFactor extends CountedFactor {
  /** How many of the compared values would be as frequent in a random selection of this size. */
  expectedByChance: number;
}

/** Values that the hosts of a filter have more often than all others. */
interface CommonFactors {
  rules: FleetRules;
  selected: number;
  others: number;
  /** Values that were compared. */
  compared: number;
  /** Core still reads the sources of telemetry, and has not compared them. */
  readsSources: boolean;
  factors: RankedFactor[];
}

/**
 * Creates the function that returns what the hosts of a filter have in common. Concurrent calls with one filter share a result. Throws as
 * reports do.
 */
export const createFactorReports = (core: ViewCore) => {
  const hostSources = createHostSources(core);
  return shareNextRun(
    async (query: ViewQuery): Promise<CommonFactors> => {
      const view = await readFleetView(core, query);
      const { selected, all, counts, readsSources } = await countFactors(
        view,
        query.filter,
        hostSources,
      );
      const factors = rankFactors(counts, { selected, all });
      return {
        rules: view.rules,
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

/** The most factors that are returned, and the most of those that chance explains as well. */
const factorsMax = 12;
const doubtfulMax = 3;

/**
 * Ranks the values that more of the selected hosts have than of the others, by how much they tell about which hosts are selected: most for
 * a value of all selected hosts and no other. Omits values of a single selected host, and those that chance explains, unless it explains
 * all.
 */
export const rankFactors = (
  counts: readonly CountedFactor[],
  { selected, all }: { selected: number; all: number },
): RankedFactor[] => {
  const others = all - selected;
  if (selected === 0 || others === 0) return [];
  const logs = logFactorials(all);
  const ranked = counts
    .filter(
      (each) => each.selected > 1 && each.selected / selected > (each.all - each.selected) / others,
    )
    .map((each) => ({ each, gain: information(each, { selected, all }) }))
    .sort((a, b) => b.gain - a.gain || compareNames(a.each, b.each))
    .slice(0, factorsMax)
    .map(({ each }) => ({
      ...each,
      expectedByChance: Math.min(
        counts.length,
        counts.length * chanceOf(each, { selected, all }, logs),
      ),
    }));
  const significant = ranked.filter(({ expectedByChance }) => expectedByChance < 1);
  return significant.length > 0 ? significant : ranked.slice(0, doubtfulMax);
};

const compareNames = (a: CountedFactor, b: CountedFactor) =>
  `${a.kind} ${a.value}` < `${b.kind} ${b.value}` ? -1 : 1;

/** The mutual information of having the value and being selected, in nats. */
const information = (each: CountedFactor, { selected, all }: { selected: number; all: number }) => {
  const term = (both: number, withValue: number, inGroup: number) =>
    both === 0 ? 0 : (both / all) * Math.log((both * all) / (withValue * inGroup));
  const without = all - each.all;
  const others = all - selected;
  return (
    term(each.selected, each.all, selected) +
    term(each.all - each.selected, each.all, others) +
    term(selected - each.selected, without, selected) +
    term(without - (selected - each.selected), without, others)
  );
};

/** The natural logarithms of 0! to n!. */
const logFactorials = (n: number): Float64Array => {
  const logs = new Float64Array(n + 1);
  for (let at = 2; at <= n; at++) logs[at] = (logs[at - 1] as number) + Math.log(at);
  return logs;
};

/** The probability that at least as many of `selected` random hosts have the value (hypergeometric). */
const chanceOf = (
  each: CountedFactor,
  { selected, all }: { selected: number; all: number },
  logs: Float64Array,
) => {
  const choose = (n: number, k: number) =>
    (logs[n] as number) - (logs[k] as number) - (logs[n - k] as number);
  let sum = 0;
  for (let both = each.selected; both <= Math.min(selected, each.all); both++) {
    if (selected - both > all - each.all) continue;
    const term = Math.exp(
      choose(each.all, both) + choose(all - each.all, selected - both) - choose(all, selected),
    );
    sum += term;
    // From here on the terms decrease.
    if (term < sum * 1e-9) break;
  }
  return Math.min(1, sum);
};
