import { sql } from "drizzle-orm";
import { type FleetFilter, selectsEveryHost } from "#proto/fleet-health/filter.ts";
import {
  attentionStates,
  type FleetState,
  type Forwarding,
  fleetStates,
  forwardings,
} from "#proto/fleet-health/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import { and, type Expression } from "./columns/expression.ts";
import type { FleetColumns } from "./columns/fleet-columns.ts";
import { type MarkedHosts, markHosts } from "./columns/select-hosts.ts";
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

type StateCounts = Record<"state_index" | "enrolled" | "active" | Forwarding, number>;

/** Computes the summary of a filter, in core's memory if `columns` have the hosts; a state without a host is absent from `byState`. */
export const summarizeFleet = async (
  db: Executor,
  rules: FleetRules,
  filter: FleetFilter,
  columns?: FleetColumns,
): Promise<FleetSummary> => {
  const where = fleetPredicate(filter, rules, { withStates: false });
  const marked = await markHosts(db, columns, where);
  const rows = marked ? countStates(marked, rules) : await selectStates(db, rules, where);
  const total = (column: "enrolled" | "active" | Forwarding) =>
    rows.reduce((sum, row) => sum + row[column], 0);
  return {
    enrolled: total("enrolled"),
    needsAttention: rows.reduce(
      (sum, row) =>
        sum +
        (attentionStates.includes(stateAtIndex(row.state_index))
          ? row.enrolled
          : row.stopped + row.never),
      0,
    ),
    activeRecentHeartbeats: total("active"),
    byForwarding: {
      forwarding: total("forwarding"),
      stopped: total("stopped"),
      never: total("never"),
    },
    byState: new Map(rows.map((row) => [stateAtIndex(row.state_index), row.enrolled])),
  };
};

const selectStates = (
  db: Executor,
  rules: FleetRules,
  where: Expression,
): Promise<readonly StateCounts[]> => {
  const forwardingCounts = forwardings.map(
    (kind) =>
      sql`(count(*) filter (where ${forwardingIs(kind, rules)}))::int as ${sql.identifier(kind)}`,
  );
  return db.execute<StateCounts>(sql`
    select ${stateIndex(rules)} as state_index, count(*)::int as enrolled,
      (count(*) filter (where ${isActive(rules)}))::int as active, ${sql.join(forwardingCounts, sql`, `)}
    from ${hostsOf(rules)} where ${where} group by 1`);
};

const countStates = ({ mark, numbers }: MarkedHosts, rules: FleetRules): readonly StateCounts[] => {
  const states = numbers(stateIndex(rules));
  const active = mark(isActive(rules));
  const { forwarding, stopped, never } = eachForwarding((kind) => mark(forwardingIs(kind, rules)));
  const rows = fleetStates.map((_, state) => ({
    state_index: state,
    enrolled: 0,
    active: 0,
    ...eachForwarding(() => 0),
  }));
  for (let at = 0; at < states.length; at++) {
    const row = rows[(states[at] as number) | 0] as StateCounts;
    row.enrolled += 1;
    row.active += active[at] as number;
    row.forwarding += forwarding[at] as number;
    row.stopped += stopped[at] as number;
    row.never += never[at] as number;
  }
  return rows.filter(({ enrolled }) => enrolled > 0);
};

const eachForwarding = <Each>(valueFor: (kind: Forwarding) => Each): Record<Forwarding, Each> => ({
  forwarding: valueFor("forwarding"),
  stopped: valueFor("stopped"),
  never: valueFor("never"),
});

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
  if (marked) return marked.places.length;
  const [row] = await db.execute<{ hosts: number }>(
    sql`select count(*)::int as hosts from ${hostsOf(rules)} where ${where}`,
  );
  return row?.hosts ?? 0;
};
