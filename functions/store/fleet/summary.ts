import { type FleetFilter, selectsEveryHost } from "#proto/fleet-health/filter.ts";
import {
  attentionStates,
  type FleetState,
  type Forwarding,
} from "#proto/fleet-health/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import { and } from "./columns/expression.ts";
import type { FleetColumns } from "./columns/fleet-columns.ts";
import { countBy, markHosts } from "./columns/select-hosts.ts";
import { fleetPredicate } from "./predicate.ts";
import {
  type FleetRules,
  forwardingIs,
  hostsOf,
  isActive,
  stateAtIndex,
  stateIndex,
} from "./rows.ts";

/** Counts over the fleet under a filter, ignoring its states. */
export interface FleetSummary {
  enrolled: number;
  needsAttention: number;
  activeRecentHeartbeats: number;
  byForwarding: Readonly<Record<Forwarding, number>>;
  byState: ReadonlyMap<FleetState, number>;
}

/** Computes the summary of a filter, in core's memory if `columns` have the hosts; a state without a host is absent from `byState`. */
export const summarizeFleet = async (
  db: Executor,
  rules: FleetRules,
  filter: FleetFilter,
  columns?: FleetColumns,
): Promise<FleetSummary> => {
  const where = fleetPredicate(filter, rules, { withStates: false });
  const marked = await markHosts(db, columns, where);
  const { totals, by } = await countBy(
    db,
    { hosts: hostsOf(rules), where, marked },
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

/** Counts the hosts that match all of `filters`, in core's memory if `columns` have the hosts. */
export const countHosts = async (
  db: Executor,
  rules: FleetRules,
  filters: readonly FleetFilter[],
  columns?: FleetColumns,
): Promise<number> => {
  const narrowing = filters.filter((filter) => !selectsEveryHost(filter));
  const where = and(...narrowing.map((filter) => fleetPredicate(filter, rules)));
  const marked = await markHosts(db, columns, where);
  const { totals } = await countBy(db, { hosts: hostsOf(rules), where, marked }, {}, {});
  return totals.all;
};
