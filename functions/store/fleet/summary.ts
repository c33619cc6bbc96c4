import { sql } from "drizzle-orm";
import { type FleetFilter, selectsEveryHost } from "#proto/fleet-health/filter.ts";
import {
  attentionStates,
  type FleetState,
  type Forwarding,
} from "#proto/fleet-health/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import { orNull, type RowOf, readRows } from "../database/statements.ts";
import { and } from "./columns/expression.ts";
import {
  type CountingRules,
  forwardingIs,
  isActive,
  notRevoked,
  stateAtIndex,
  stateIndex,
} from "./conditions.ts";
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

/** Finds the config from which core returned the most hosts to their last known good one, and counts the hosts of all such configs. */
export const findRolledBackConfig = async (
  db: Executor,
  rules: CountingRules,
): Promise<RowOf<typeof rolledBackConfig> | undefined> => {
  const [row] = await readRows(
    db,
    rolledBackConfig,
    sql`
    select encode(desired_config, 'hex') as config_hash, sum(hosts) over () as hosts, count(*) over () as configs,
      (select name from collector_config where config_hash = encode(desired_config, 'hex') order by created_at desc limit 1) as name
    from (
      select desired_config, count(*) as hosts from fleet
      where agent = 'otelcol' and drift = 'on_last_known_good' and ${notRevoked(rules)} group by 1
    ) grouped order by grouped.hosts desc limit 1`,
  );
  return row;
};

const rolledBackConfig = {
  configHash: String,
  name: orNull(String),
  hosts: Number,
  configs: Number,
};
