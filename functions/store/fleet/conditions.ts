/**
 * The conditions of docs/fleet-health.md as predicates over `fleet_status`; the state is the first condition that applies. Filter, summary,
 * page, facets and export all use these, so that they agree. No predicate is ever null, and each compares a column with a constant, so that
 * an index or a plain scan can evaluate it.
 */
import { type SQL, sql } from "drizzle-orm";
import { hourMs } from "#kit/clock.ts";
import {
  attentionStates,
  type ConfigProgress,
  configProgress,
  type FleetCondition,
  type FleetSeverity,
  type FleetState,
  type Forwarding,
  fleetConditions,
  fleetSeverities,
  fleetStates,
  forwardings,
  troubles,
} from "#proto/fleet-health/vocabulary.ts";
import { type AgentKind, agentKinds, agentPromises } from "#proto/values.ts";
import {
  always,
  and,
  choose,
  column,
  compare,
  constant,
  type Expression,
  greatest,
  least,
  never,
  not,
  oneOf,
  or,
  reversed,
  time,
  timestampAt,
} from "./columns/expression.ts";
import { countedAfterColumn, countedBefore, type Outage } from "./counted-time.ts";

/** The thresholds of the states; the report includes them. */
export interface FleetThresholds {
  heartbeatIntervalSeconds: number;
  /** A host without a heartbeat for longer is stale. */
  staleAfterSeconds: number;
  /** A host whose last envelope is older does not forward now. */
  forwardingSeconds: number;
  /** For this long after enrollment, a host without heartbeats is `enrolling` instead of stale. */
  enrollingSeconds: number;
  /** Hosts have this long to reconnect after an outage of core: their heartbeat interval with its jitter, and the timeout of a request. */
  returnSeconds: number;
  /** A certificate with less than this fraction of its lifetime left, and no successor, is expiring. */
  certExpiringFraction: number;
  /** Oldest supported SemVer version of svc-collector; null supports any. */
  versionMin: string | null;
  /** Of agents that speak OpAMP; null supports any version, also one that is not SemVer. Absent from thresholds of an earlier core. */
  otelcolVersionMin?: string | null;
}

/** The timestamp and the thresholds that decide on the states, and the versions and platforms of the fleet. */
export interface FleetRules {
  now: Date;
  thresholds: FleetThresholds;
  /** When core could not receive: this time does not count against hosts. */
  outages: readonly Outage[];
  /** Every version and platform of the fleet: few, so that conditions on them are evaluated once instead of for each row. */
  versions: readonly string[];
  platforms: readonly string[];
  /** Those of `versions` that are unsupported for each kind of agent. */
  unsupportedVersions: Readonly<Record<AgentKind, readonly string[]>>;
  /** The hosts as they were at `now`, a past time, with the columns of `fleet`; absent for the present. */
  past?: SQL;
}

/** Returns the relation with the hosts to which the rules apply. */
export const hostsOf = ({ past }: Pick<FleetRules, "past">): SQL => past ?? sql`fleet`;

/** The host has sent a heartbeat. */
export const hasHeartbeat = compare("last_heartbeat_at", ">", never);

/** The rules that decide on elapsed time. */
export type CountingRules = Pick<FleetRules, "now" | "thresholds" | "outages">;

/** Returns the time since which a host that is not stale has sent a heartbeat. */
export const staleBefore = ({ now, thresholds, outages }: CountingRules): Expression =>
  timestampAt(countedBefore(now, thresholds.staleAfterSeconds, outages));

/** Returns the time after which a host without a heartbeat must have enrolled to be `enrolling`. */
export const enrollingAfter = ({ now, thresholds, outages }: CountingRules): Expression =>
  timestampAt(countedBefore(now, thresholds.enrollingSeconds, outages));

/** Selects hosts with a recent heartbeat: of those that have sent one, all that are not `stale`. */
export const heartbeatRecent = (rules: CountingRules): Expression =>
  compare("last_heartbeat_at", ">=", staleBefore(rules));

/** Selects hosts that are not revoked: those that count in the progress of configs. */
export const notRevoked = ({ now }: Pick<CountingRules, "now">): Expression =>
  compare("revoked_from", ">", timestampAt(now));

/** Selects active hosts: not revoked, with a recent heartbeat. */
export const isActive = (rules: FleetRules): Expression =>
  and(heartbeatRecent(rules), notRevoked(rules));

/** Returns a time to compare with that of the last envelope, which rows store in whole seconds: rounded down to a second. */
export const envelopeSecond = (ms: number): Expression => time(ms - (ms % 1000));

const forwardsFrom = ({ now, thresholds, outages }: FleetRules): Expression =>
  envelopeSecond(countedBefore(now, thresholds.forwardingSeconds, outages).getTime());

/** An agent without a queue of ours never forwards to core, and is not asked to. */
const hasQueue = oneOf(
  "agent",
  agentKinds.filter((kind) => agentPromises[kind].hasQueue),
);

const forwardingKinds: Record<Forwarding, (rules: FleetRules) => Expression> = {
  forwarding: (rules) => compare("last_envelope_at", ">=", forwardsFrom(rules)),
  stopped: (rules) =>
    and(
      compare("last_envelope_at", "<", forwardsFrom(rules)),
      compare("last_envelope_at", ">", never),
      or(compare("queue_bytes", ">", 0), heartbeatRecent(rules)),
    ),
  never: () => and(compare("last_envelope_at", "=", never), hasHeartbeat, hasQueue),
};

/** Returns the predicate of a kind of `forwardings`: at most one is true of a row, and none of a revoked host. */
export const forwardingIs = (kind: Forwarding, rules: FleetRules): Expression =>
  and(forwardingKinds[kind](rules), notRevoked(rules));

/** Returns how the host forwards as its index in `forwardings`; -1 when no kind applies. */
export const forwardingIndex = (rules: FleetRules): Expression =>
  choose(
    forwardings.map((kind, index) => [forwardingIs(kind, rules), constant(index)]),
    constant(-1),
  );

const conditions: Record<FleetCondition, (rules: FleetRules) => Expression> = {
  revoked: ({ now }) => compare("revoked_from", "<=", timestampAt(now)),
  enrolling: (rules) =>
    and(
      compare("last_heartbeat_at", "=", never),
      compare("last_envelope_at", "=", never),
      compare("enrolled_at", ">", enrollingAfter(rules)),
    ),
  renewal_failed: ({ now }) =>
    or(compare("expired_from", "<=", timestampAt(now)), column("renewal_failed")),
  stale: (rules) =>
    and(
      compare("last_heartbeat_at", "<", staleBefore(rules)),
      or(hasHeartbeat, compare("enrolled_at", "<=", enrollingAfter(rules))),
    ),
  cert_expiring: ({ now }) => compare("expiring_from", "<=", timestampAt(now)),
  config_invalid: () => column("config_invalid"),
  unsupported_version: ({ unsupportedVersions }) =>
    or(
      ...agentKinds.map((kind) =>
        and(compare("agent", "=", kind), oneOf("version", unsupportedVersions[kind])),
      ),
    ),
  queue_at_risk: () => and(column("queue_at_risk"), hasQueue),
  component_unhealthy: () => and(column("queue_at_risk"), not(hasQueue)),
};

/** Returns the predicate of a condition alone, independent of precedence. */
export const conditionPredicate = (condition: FleetCondition, rules: FleetRules): Expression =>
  conditions[condition](rules);

/** Returns the state of a row as its index in `fleetStates`: the first condition that applies, or `healthy`. */
export const stateIndex = (rules: FleetRules): Expression =>
  choose(
    fleetConditions.map((condition, index) => [conditions[condition](rules), constant(index)]),
    constant(fleetConditions.length),
  );

/** Returns the state with an index from `stateIndex`. */
export const stateAtIndex = (index: number): FleetState => fleetStates[index] ?? "healthy";

/** Conditions that cannot apply before `troubledFrom`; the others depend on a threshold or on the list of versions. */
const ownTroubles: ReadonlySet<FleetCondition> = new Set([
  "revoked",
  "renewal_failed",
  "cert_expiring",
  "config_invalid",
  "queue_at_risk",
  "component_unhealthy",
]);

/** As the schema indexes it. */
const troubledFrom = choose(
  [[or(...troubles.flags.map(column)), never]],
  least(...troubles.times.map(column)),
);

/**
 * Returns the predicate that the row has this state: its condition applies and none before it. Equals `stateIndex`, in terms that can use
 * an index.
 */
export const stateIs = (state: FleetState, rules: FleetRules): Expression => {
  const index = fleetStates.indexOf(state);
  const before = fleetConditions
    .slice(0, index)
    .map((condition) => not(conditions[condition](rules)));
  if (state === "healthy") return and(...before);
  const indexed = ownTroubles.has(state)
    ? [compare(troubledFrom, "<=", timestampAt(rules.now))]
    : [];
  return and(...indexed, conditions[state](rules), ...before);
};

/** Selects hosts that need attention: `severityOf` ranks them before `enrolling`. */
export const needsAttention = (rules: FleetRules): Expression =>
  or(
    ...attentionStates.map((state) => stateIs(state, rules)),
    forwardingIs("stopped", rules),
    forwardingIs("never", rules),
  );

/**
 * Returns the sort key of `severity`: a century for each step of `fleetSeverities`, minus since when the row is in its state. So one
 * timestamp sorts first by severity, then the newest first, and fits in a cursor like any other column.
 */
export const severityKey = (rules: FleetRules): Expression => {
  const key = (severity: FleetSeverity, since: Expression) =>
    reversed(greatest(since, epoch), stepsMs(severity));
  return choose(
    [
      ...fleetConditions.map(
        (condition) =>
          [conditions[condition](rules), key(condition, conditionSince[condition](rules))] as const,
      ),
      [forwardingIs("stopped", rules), key("not_forwarding", column("last_envelope_at"))],
      [forwardingIs("never", rules), key("not_forwarding", column("enrolled_at"))],
    ],
    time(stepsMs("healthy")),
  );
};

/** Infinite times cannot be reversed. */
const epoch = time(0);
const centuryMs = 876_600 * hourMs;
const stepsMs = (severity: FleetSeverity) => fleetSeverities.indexOf(severity) * centuryMs;

/** Since when a condition applies. */
const conditionSince: Record<FleetCondition, (rules: FleetRules) => Expression> = {
  revoked: () =>
    choose(
      [[compare("revoked_from", ">", never), column("revoked_from")]],
      column("condition_since"),
    ),
  enrolling: () => column("enrolled_at"),
  renewal_failed: ({ now }) =>
    choose(
      [[compare("expired_from", "<=", timestampAt(now)), column("expired_from")]],
      column("condition_since"),
    ),
  stale: (rules) => staleFrom(rules),
  cert_expiring: () => column("expiring_from"),
  config_invalid: () => column("condition_since"),
  unsupported_version: () => column("version_since"),
  queue_at_risk: () => column("condition_since"),
  component_unhealthy: () => column("condition_since"),
};

/** Returns when a host becomes stale, or became it; `row` names its row in the statement. */
export const staleFrom = ({ thresholds, outages }: CountingRules, row = ""): Expression => {
  const after = (name: string, seconds: number) =>
    countedAfterColumn(column(`${row}${name}`), seconds, outages);
  return choose(
    [
      [
        compare(`${row}last_heartbeat_at`, ">", never),
        after("last_heartbeat_at", thresholds.staleAfterSeconds),
      ],
    ],
    after("enrolled_at", thresholds.enrollingSeconds),
  );
};

/** A host is at the first step that applies. */
const steps: Record<ConfigProgress, (rules: CountingRules) => Expression> = {
  silent: (rules) =>
    compare("last_heartbeat_at", "<", greatest(column("config_assigned_at"), staleBefore(rules))),
  running: () => compare("drift", "=", "in_sync"),
  failed: () => column("config_invalid"),
  drifted: () => always,
};

/** Returns the predicate that a host has made this progress with its desired config. */
export const progressPredicate = (progress: ConfigProgress, rules: CountingRules): Expression =>
  and(
    notRevoked(rules),
    compare("drift", "<>", "no_desired"),
    ...configProgress
      .slice(0, configProgress.indexOf(progress))
      .map((step) => not(steps[step](rules))),
    steps[progress](rules),
  );

/** Returns the step as a value, for rows that `notRevoked` selects and that have a desired config. */
export const progressOf = (rules: CountingRules): Expression =>
  choose(
    configProgress.map((step) => [steps[step](rules), constant(step)]),
    constant("drifted"),
  );

/** When a host began to run its desired config: when it first reported it, or the assignment if it ran it before. */
export const appliedAt = greatest(column("running_config_since"), column("config_assigned_at"));

/** The columns of `fleet` with a config's hash. */
export const hashColumns = ["desired_config", "running_config", "last_known_good_config"] as const;

/**
 * Returns the predicate that a host's hash begins with `prefix`, 6 to 64 lowercase hex digits. Compares only the first 16: a host that
 * could forge these could forge the rest. False while the hash is unknown.
 */
export const hashBegins = (name: (typeof hashColumns)[number], prefix: string): Expression => {
  const digits = prefix.slice(0, 16);
  // The key of an unknown hash is 0.
  const first = /[^0]/.test(digits) ? digits.padEnd(16, "0") : "1";
  return and(
    compare(`${name}_key`, ">=", hashKey(first)),
    compare(`${name}_key`, "<=", hashKey(digits.padEnd(16, "f"))),
  );
};

/** Returns `fleet_hash_key` of a hash. */
export const hashKey = (hash: string): Expression =>
  constant(BigInt.asIntN(64, BigInt(`0x${hash.slice(0, 16)}`)));
