import { countFactors } from "#functions/store/fleet/factors.ts";
import type { HostSources } from "#functions/store/fleet/host-sources.ts";
import type { ViewedFleet } from "#functions/store/fleet/select-hosts.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { CommonFactor } from "#proto/watch/watch.ts";
import { rankFactors } from "./find-factors.ts";

/** A factor is common if this share of the hosts has it, and the probability of chance is at most this. */
const commonShareMin = 0.8;
const chanceMax = 0.05;

/** Finds the fact that most hosts of a filter have and that explains most, unless the filter itself selects it; undefined without one. */
export const findCommonFactor = async (
  view: ViewedFleet,
  filter: FleetFilter,
  hostSources?: HostSources | null,
): Promise<CommonFactor | undefined> => {
  const counts = await countFactors(view, filter, hostSources);
  const factor = rankFactors(counts.counts, counts).find(
    (each) =>
      each.expectedByChance < chanceMax &&
      each.selected >= commonShareMin * counts.selected &&
      !isNamed(filter, each),
  );
  if (factor === undefined) return undefined;
  const { kind, value, selected, all } = factor;
  return { kind, value, selected, others: all - selected };
};

/** Reports whether a filter itself selects a value: then all its hosts have it, which explains nothing. */
const isNamed = (filter: FleetFilter, { kind, value }: Pick<CommonFactor, "kind" | "value">) => {
  const { runningConfig, desiredConfig, ...others } = filter;
  const named = { ...others, running_config: runningConfig, desired_config: desiredConfig }[kind];
  return (
    named?.some(
      (each: string) =>
        value === each || (kind.endsWith("config") && value.startsWith(each.slice(0, 16))),
    ) ?? false
  );
};
