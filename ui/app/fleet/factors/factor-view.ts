import type { FleetFactors } from "#proto/fleet-health/factors.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { camelCase } from "#proto/values.ts";
import { formatCount, formatCountOf, inWords, plainName } from "#ui/app/format/format.ts";
import type { FleetView } from "../view/view-state.ts";

/** A value that hosts have in common. */
export type Factor = FleetFactors["items"][number];

/** Returns the view whose hosts are compared with others: of the whole fleet, which has no others, the hosts that need attention. */
export const comparedView = (view: FleetView): FleetView =>
  Object.keys(view.filter).length > 0 ? view : { ...view, filter: { attention: ["needed"] } };

/** Returns the filter of the hosts that have a value. */
export const factorFilter = ({ kind, value }: Pick<Factor, "kind" | "value">): FleetFilter => ({
  [camelCase(kind)]: [value],
});

/** Returns the value as the page writes it elsewhere. */
export const factorValue = ({ kind, value }: Pick<Factor, "kind" | "value">): string =>
  kind === "drift" ? inWords(value) : plainName(value);

/** Returns the counts in words: `17 of 18 here, 20 of 294 elsewhere`. */
export const factorCounts = (factor: Factor, { selected, others }: FleetFactors): string =>
  `${formatCount(factor.selected)} of ${formatCount(selected)} here, ${formatCount(factor.others)} of ${formatCount(others)} elsewhere`;

/** Below this number of values expected by chance, a value is hardly chance. */
const chanceMax = 0.05;

/** Describes how likely chance explains a value; "" if it hardly does. */
export const factorDoubt = ({ expected_by_chance: expected }: Factor): string => {
  if (expected < chanceMax) return "";
  return expected < 1 ? "may be chance" : "probably chance";
};

/** Returns why there is nothing in common; undefined where there is something. */
export const nothingInCommon = ({ selected, others, items }: FleetFactors): string | undefined => {
  if (selected === 0) return "No host matches.";
  if (others === 0)
    return "These are all hosts: there are none to compare with. Choose a state or a filter.";
  if (selected === 1) return "One host alone has nothing in common. Choose more.";
  if (items.length === 0)
    return `No label, version, platform, config, core, subnet, policy or source is more frequent among ${formatCountOf(selected, "host")} than elsewhere.`;
  return undefined;
};
