import { fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { changeFilter, type FleetFilter, statesOf } from "./filter.ts";
import { excludedStates, serialiseFilter } from "./serialise.ts";

/** One part of a filter on its own: as the query writes it, and the filter that is left when it is taken away. */
export interface Pill {
  label: string;
  without: FleetFilter;
}

/** The parts of a filter in the order of its query; a pill for each state. */
export const pillsOf = (filter: FleetFilter): Pill[] => {
  const { states = [], text, ...rest } = filter;
  const excluded = excludedStates(states);
  const statePills = (excluded ?? states).map((state) => ({
    label: `${excluded ? "-" : ""}state:${state}`,
    without: changeFilter(filter, {
      states: statesOf(
        excluded
          ? fleetStates.filter((one) => one === state || states.includes(one))
          : states.filter((one) => one !== state),
      ),
    }),
  }));
  const partPill = (part: FleetFilter): Pill => {
    const kept = Object.entries(filter).filter(([key]) => !(key in part));
    return { label: serialiseFilter(part), without: Object.fromEntries(kept) };
  };
  // The query's own order, whatever the order in which the filter was put together.
  const order = serialiseFilter(rest);
  return [
    ...(text === undefined ? [] : [partPill({ text })]),
    ...statePills,
    ...Object.entries(rest)
      .map(([key, value]) => partPill({ [key]: value }))
      .sort((one, other) => order.indexOf(one.label) - order.indexOf(other.label)),
  ];
};
