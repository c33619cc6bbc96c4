import { type FleetFilter, selectsEveryHost } from "#proto/fleet-health/filter.ts";
import {
  attentionStates,
  type FleetState,
  type Forwarding,
} from "#proto/fleet-health/vocabulary.ts";
import { and } from "./columns/expression.ts";
import { forwardingIs, isActive, stateAtIndex, stateIndex } from "./conditions.ts";
import { fleetPredicate } from "./predicate.ts";
import { selectHosts, type ViewedFleet } from "./select-hosts.ts";

/** Counts over the fleet under a filter, ignoring its states. */
export interface FleetSummary {
  enrolled: number;
  needsAttention: number;
  activeRecentHeartbeats: number;
  byForwarding: Readonly<Record<Forwarding, number>>;
  byState: ReadonlyMap<FleetState, number>;
}

/** Computes the summary of a filter; a state without a host is absent from `byState`. */
export const summarizeFleet = async (
  view: ViewedFleet,
  filter: FleetFilter,
): Promise<FleetSummary> => {
  const { rules } = view;
  const hosts = await selectHosts(view, fleetPredicate(filter, rules, { withStates: false }));
  const { totals, by } = await hosts.count(
    { state: stateIndex(rules) },
    {
      active: isActive(rules),
      forwarding: forwardingIs("forwarding", rules),
      stopped: forwardingIs("stopped", rules),
      never: forwardingIs("never", rules),
    },
  );
  const { all, active, forwarding, stopped, never } = totals;
  const states = [...by.state].map(([index, counts]) => ({
    state: stateAtIndex(Number(index)),
    ...counts,
  }));
  return {
    enrolled: all,
    needsAttention: states.reduce(
      (sum, each) =>
        sum + (attentionStates.includes(each.state) ? each.all : each.stopped + each.never),
      0,
    ),
    activeRecentHeartbeats: active,
    byForwarding: { forwarding, stopped, never },
    byState: new Map(states.map((each) => [each.state, each.all])),
  };
};

/** Counts the hosts that match all of `filters`. */
export const countHosts = async (
  view: ViewedFleet,
  filters: readonly FleetFilter[],
): Promise<number> => {
  const narrowing = filters.filter((filter) => !selectsEveryHost(filter));
  const where = and(...narrowing.map((filter) => fleetPredicate(filter, view.rules)));
  const { totals } = await (await selectHosts(view, where)).count({}, {});
  return totals.all;
};
