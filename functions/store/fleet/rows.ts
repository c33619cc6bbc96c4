/**
 * The conditions of docs/fleet-health.md as predicates over `fleet_status`; the state is the first condition that applies. Filter, summary,
 * page, facets and export all use these, so that they agree. No predicate is ever null, and each compares a column with a constant, so that
 * an index or a plain scan can evaluate it.
 */
import { type SQL, sql } from "drizzle-orm";
import { troubledFrom } from "#drizzle/schema/fleet.ts";
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
} from "#proto/fleet-health/vocabulary.ts";
import { arrayLiteral } from "../database/statements.ts";
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
  /** Oldest supported SemVer version; null supports any. */
  versionMin: string | null;
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
  /** Those of `versions` that are not SemVer or are below the minimum. */
  unsupportedVersions: readonly string[];
  /** The hosts as they were at `now`, a past time, with the columns of `fleet`; absent for the present. */
  past?: SQL;
}

/** Returns the relation with the hosts to which the rules apply. */
export const hostsOf = ({ past }: Pick<FleetRules, "past">): SQL => past ?? sql`fleet`;

/** Returns the timestamp `seconds` after `at`, as a constant of a statement. */
export const timestampAt = (at: Date, seconds = 0): SQL =>
  sql`${textAfter(at, seconds)}::timestamptz`;

/** Returns the timestamps `seconds` after `at`, as an array. */
export const timestampsAt = (at: Date, seconds: readonly number[]): SQL =>
  sql`${arrayLiteral(seconds.map((each) => textAfter(at, each)))}::timestamptz[]`;

const textAfter = (at: Date, seconds: number) =>
  new Date(at.getTime() + seconds * 1000).toISOString();

/** Returns the predicate that a column equals one of `values`. */
export const oneOf = (column: SQL, values: readonly string[]): SQL =>
  values.length === 0
    ? sql`false`
    : sql`${column} in (${sql.join(
        values.map((value) => sql`${value}`),
        sql`, `,
      )})`;

/** The time of an event that has not happened. */
export const never = sql`'-infinity'::timestamptz`;

/** The host has sent a heartbeat. */
export const hasHeartbeat = sql`last_heartbeat_at > ${never}`;

/** The rules that decide on elapsed time. */
export type CountingRules = Pick<FleetRules, "now" | "thresholds" | "outages">;

/** Returns the time since which a host that is not stale has sent a heartbeat. */
export const staleBefore = ({ now, thresholds, outages }: CountingRules): SQL =>
  timestampAt(countedBefore(now, thresholds.staleAfterSeconds, outages));

/** Returns the time after which a host without a heartbeat must have enrolled to be `enrolling`. */
export const enrollingAfter = ({ now, thresholds, outages }: CountingRules): SQL =>
  timestampAt(countedBefore(now, thresholds.enrollingSeconds, outages));

/** Selects hosts with a recent heartbeat: of those that have sent one, all that are not `stale`. */
export const heartbeatRecent = (rules: CountingRules): SQL =>
  sql`last_heartbeat_at >= ${staleBefore(rules)}`;

const notRevoked = (rules: FleetRules): SQL => sql`not ${conditions.revoked(rules)}`;

/** Selects active hosts: not revoked, with a recent heartbeat. */
export const isActive = (rules: FleetRules): SQL =>
  sql`(${heartbeatRecent(rules)} and ${notRevoked(rules)})`;

/** Rows store the time of the last envelope in whole seconds, so the limit is rounded down to a second. */
const forwardsFrom = ({ now, thresholds, outages }: FleetRules): SQL => {
  const from = countedBefore(now, thresholds.forwardingSeconds, outages).getTime();
  return timestampAt(new Date(from - (from % 1000)));
};

const forwardingKinds: Record<Forwarding, (rules: FleetRules) => SQL> = {
  forwarding: (rules) => sql`last_envelope_at >= ${forwardsFrom(rules)}`,
  stopped: (rules) => sql`(last_envelope_at < ${forwardsFrom(rules)} and last_envelope_at > ${never}
    and (queue_bytes > 0 or ${heartbeatRecent(rules)}))`,
  never: () => sql`(last_envelope_at = ${never} and ${hasHeartbeat})`,
};

/** Returns the predicate of a kind of `forwardings`: at most one is true of a row, and none of a revoked host. */
export const forwardingIs = (kind: Forwarding, rules: FleetRules): SQL =>
  sql`(${forwardingKinds[kind](rules)} and ${notRevoked(rules)})`;

/** Returns how the host forwards as its index in `forwardings`; null when no kind applies. */
export const forwardingIndex = (rules: FleetRules): SQL<number | null> => {
  const cases = forwardings.map(
    (kind, index) => sql`when ${forwardingIs(kind, rules)} then ${sql.raw(String(index))}`,
  );
  return sql<number | null>`case ${sql.join(cases, sql` `)} end`;
};

const conditions: Record<FleetCondition, (rules: FleetRules) => SQL> = {
  revoked: ({ now }) => sql`revoked_from <= ${timestampAt(now)}`,
  enrolling: (rules) => sql`(last_heartbeat_at = ${never} and last_envelope_at = ${never}
    and enrolled_at > ${enrollingAfter(rules)})`,
  renewal_failed: ({ now }) => sql`(expired_from <= ${timestampAt(now)} or renewal_failed)`,
  stale: (rules) => sql`(last_heartbeat_at < ${staleBefore(rules)}
    and (${hasHeartbeat} or enrolled_at <= ${enrollingAfter(rules)}))`,
  cert_expiring: ({ now }) => sql`expiring_from <= ${timestampAt(now)}`,
  config_invalid: () => sql`config_invalid`,
  unsupported_version: ({ unsupportedVersions }) => oneOf(sql`version`, unsupportedVersions),
  queue_at_risk: () => sql`queue_at_risk`,
};

/** Returns the predicate of a condition alone, independent of precedence. */
export const conditionPredicate = (condition: FleetCondition, rules: FleetRules): SQL =>
  conditions[condition](rules);

/** Returns the state of a row as its index in `fleetStates`: the first condition that applies, or `healthy`. */
export const stateIndex = (rules: FleetRules): SQL<number> => {
  const cases = fleetConditions.map(
    (condition, index) => sql`when ${conditions[condition](rules)} then ${sql.raw(String(index))}`,
  );
  return sql<number>`case ${sql.join(cases, sql` `)} else ${sql.raw(String(fleetConditions.length))} end`;
};

/** Returns the state with an index from `stateIndex`. */
export const stateAtIndex = (index: number): FleetState => fleetStates[index] ?? "healthy";

/** Conditions that cannot apply before `troubledFrom`; the others depend on a threshold or on the list of versions. */
const ownTroubles: ReadonlySet<FleetCondition> = new Set([
  "revoked",
  "renewal_failed",
  "cert_expiring",
  "config_invalid",
  "queue_at_risk",
]);

/**
 * Returns the predicate that the row has this state: its condition applies and none before it. Equals `stateIndex`, in terms that can use
 * an index.
 */
export const stateIs = (state: FleetState, rules: FleetRules): SQL => {
  const index = fleetStates.indexOf(state);
  const before = fleetConditions
    .slice(0, index)
    .map((condition) => sql`not ${conditions[condition](rules)}`);
  if (state === "healthy") return sql`(${sql.join(before, sql` and `)})`;
  const indexed = ownTroubles.has(state) ? [sql`${troubledFrom} <= ${timestampAt(rules.now)}`] : [];
  return sql`(${sql.join([...indexed, conditions[state](rules), ...before], sql` and `)})`;
};

/** Selects hosts that need attention: `severityOf` ranks them before `enrolling`. */
export const needsAttention = (rules: FleetRules): SQL => {
  const stalled = (["stopped", "never"] as const).map((kind) => forwardingIs(kind, rules));
  return sql`(${sql.join([...attentionStates.map((state) => stateIs(state, rules)), ...stalled], sql` or `)})`;
};

/**
 * Returns the sort key of `severity`: since when the row is in its state, plus a century for each step of `fleetSeverities`. So one
 * timestamp sorts first by severity, then by age, and fits in a cursor like any other column.
 */
export const severityKey = (rules: FleetRules): SQL => {
  const key = (severity: FleetSeverity, since: SQL) =>
    sql`${since} + ${sql.raw(`interval '${hoursOf(severity)} hours'`)}`;
  const ofConditions = fleetConditions.map(
    (condition) =>
      sql`when ${conditionPredicate(condition, rules)} then ${key(condition, conditionSince[condition](rules))}`,
  );
  return sql`case ${sql.join(ofConditions, sql` `)}
    when ${forwardingIs("stopped", rules)} then ${key("not_forwarding", sql`last_envelope_at`)}
    when ${forwardingIs("never", rules)} then ${key("not_forwarding", sql`enrolled_at`)}
    else ${timestampAt(new Date(0), hoursOf("healthy") * 3600)} end`;
};

/** In hours, which PostgreSQL adds without regard to a time zone. */
const centuryHours = 876_600;
const hoursOf = (severity: FleetSeverity) => fleetSeverities.indexOf(severity) * centuryHours;

/** Since when a condition applies. */
const conditionSince: Record<FleetCondition, (rules: FleetRules) => SQL> = {
  revoked: () => sql`case when revoked_from > ${never} then revoked_from else condition_since end`,
  enrolling: () => sql`enrolled_at`,
  renewal_failed: ({ now }) =>
    sql`case when expired_from <= ${timestampAt(now)} then expired_from else condition_since end`,
  stale: ({ thresholds, outages }) => sql`case when last_heartbeat_at > ${never}
    then ${countedAfterColumn(sql`last_heartbeat_at`, thresholds.staleAfterSeconds, outages)}
    else ${countedAfterColumn(sql`enrolled_at`, thresholds.enrollingSeconds, outages)} end`,
  cert_expiring: () => sql`expiring_from`,
  config_invalid: () => sql`condition_since`,
  unsupported_version: () => sql`version_since`,
  queue_at_risk: () => sql`condition_since`,
};

/** Returns the predicate that a host counts in the progress of configs: it is not revoked. */
export const isCounted = ({ now }: Pick<CountingRules, "now">): SQL =>
  sql`revoked_from > ${timestampAt(now)}`;

/** A host is at the first step that applies. */
const steps: Record<ConfigProgress, (rules: CountingRules) => SQL> = {
  silent: (rules) => sql`last_heartbeat_at < greatest(config_assigned_at, ${staleBefore(rules)})`,
  running: () => sql`drift = 'in_sync'`,
  failed: () => sql`config_invalid`,
  drifted: () => sql`true`,
};

/** Returns the predicate that a host has made this progress with its desired config. Never null. */
export const progressPredicate = (progress: ConfigProgress, rules: CountingRules): SQL => {
  const before = configProgress
    .slice(0, configProgress.indexOf(progress))
    .map((step) => sql`not ${steps[step](rules)}`);
  const parts = [isCounted(rules), sql`drift <> 'no_desired'`, ...before, steps[progress](rules)];
  return sql`(${sql.join(parts, sql` and `)})`;
};

/** Returns the step as a value, for rows that `isCounted` selects and that have a desired config. */
export const progressOf = (rules: CountingRules): SQL<ConfigProgress> => {
  const cases = configProgress.map(
    (step) => sql`when ${steps[step](rules)} then ${sql.raw(`'${step}'`)}`,
  );
  return sql`case ${sql.join(cases, sql` `)} end`;
};

/** When a host began to run its desired config: when it first reported it, or the assignment if it ran it before. */
export const appliedAt = sql`greatest(running_config_since, config_assigned_at)`;

/** A column of `fleet` with a config's hash. */
type HashColumn = "desired_config" | "running_config" | "last_known_good_config";

/**
 * Returns the predicate that a host's hash begins with `prefix`, 6 to 64 lowercase hex digits. Compares only the first 16: a host that
 * could forge these could forge the rest. False while the hash is unknown.
 */
export const hashBegins = (column: HashColumn, prefix: string): SQL => {
  const digits = prefix.slice(0, 16);
  // The key of an unknown hash is 0.
  const first = /[^0]/.test(digits) ? digits.padEnd(16, "0") : "1";
  return sql`${sql.raw(`${column}_key`)} between ${hashKey(first)} and ${hashKey(digits.padEnd(16, "f"))}`;
};

/** Returns `fleet_hash_key` of a hash, as a constant. */
export const hashKey = (hash: string): SQL =>
  sql`${BigInt.asIntN(64, BigInt(`0x${hash.slice(0, 16)}`)).toString()}::bigint`;
