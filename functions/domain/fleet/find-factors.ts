import { type CountedFactor, countFactors } from "#functions/store/fleet/factors.ts";
import { createHostSources } from "#functions/store/fleet/host-sources.ts";
import type { FleetRules } from "#functions/store/fleet/rows.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import type { ViewQuery } from "./report.ts";
import type { ViewCore } from "./rules.ts";
import { readViewRules, requireHistory } from "./view-rules.ts";

/** What the hosts of a filter have more often than all others. */
interface CommonFactors {
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

/** What a selection of hosts has in common, by counts alone. */

/** A value that the selection has more often than the others. */
interface RankedFactor extends CountedFactor {
  /** How many of the compared values would be as frequent in a selection of this size by lot. */
  expectedByChance: number;
}

/** Factors that are returned, and those where chance explains each as well. */
const factorsMax = 12;
const doubtfulMax = 3;

/**
 * Ranks the values that more of the selected hosts have than of the others, by the information that they give on which hosts are selected: a
 * value of all selected hosts and no other gives all of it. Leaves out what a single selected host has, which is nothing in common, and what
 * chance explains, unless that is true of all.
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
    .sort((a, b) => b.gain - a.gain || compare(a.each, b.each))
    .slice(0, factorsMax)
    .map(({ each }) => ({
      ...each,
      expectedByChance: Math.min(
        counts.length,
        counts.length * chanceOf(each, { selected, all }, logs),
      ),
    }));
  const telling = ranked.filter(({ expectedByChance }) => expectedByChance < 1);
  return telling.length > 0 ? telling : ranked.slice(0, doubtfulMax);
};

const compare = (a: CountedFactor, b: CountedFactor) =>
  `${a.kind} ${a.value}` < `${b.kind} ${b.value}` ? -1 : 1;

/** The mutual information of having the value and being selected, in nats. */
const information = (each: CountedFactor, { selected, all }: { selected: number; all: number }) => {
  const part = (both: number, one: number, other: number) =>
    both === 0 ? 0 : (both / all) * Math.log((both * all) / (one * other));
  const without = all - each.all;
  const others = all - selected;
  return (
    part(each.selected, each.all, selected) +
    part(each.all - each.selected, each.all, others) +
    part(selected - each.selected, without, selected) +
    part(without - (selected - each.selected), without, others)
  );
};

/** The natural logarithms of 0! to n!. */
const logFactorials = (n: number): Float64Array => {
  const logs = new Float64Array(n + 1);
  for (let at = 2; at <= n; at++) logs[at] = (logs[at - 1] as number) + Math.log(at);
  return logs;
};

/** The probability that at least as many of `selected` hosts, taken by lot, have the value (hypergeometric). */
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
    // The terms fall from here on.
    if (term < sum * 1e-9) break;
  }
  return Math.min(1, sum);
};
