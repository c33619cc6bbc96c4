/**
 * The rules of contract section 6, once: each condition as a predicate over `fleet_host`, the state as the first that holds. Filter,
 * count, page, facets and export are made of these, so that they cannot disagree. No predicate is ever null, and each compares a
 * column with a constant, so that an index or a plain scan answers it.
 */
import { type SQL, sql } from "drizzle-orm";
import { troubledFrom } from "../../drizzle/schema/fleet.ts";
import type { FleetFilter } from "../../proto/fleet-health/filter.ts";
import {
  type ExportKind,
  type FleetCondition,
  type FleetState,
  fleetConditions,
  fleetStates,
} from "../../proto/fleet-health/vocabulary.ts";
import { substring } from "./query-parts.ts";

/** The moment and the thresholds that the states are decided by, and the words of the fleet. */
export interface FleetRules {
  now: Date;
  thresholds: FleetThresholds;
  /** Every version and platform of the fleet: few, so that what is asked of them is decided once and not for each row. */
  versions: readonly string[];
  platforms: readonly string[];
  /** Those of `versions` that are not SemVer or are below the minimum, decided by the semver library. */
  unsupportedVersions: readonly string[];
}

/** A moment as a constant of a statement, `seconds` after `at`. */
export const moment = (at: Date, seconds = 0): SQL => sql`${textAfter(at, seconds)}::timestamptz`;

/** Moments as an array, each `seconds` after `at`. */
export const moments = (at: Date, seconds: readonly number[]): SQL =>
  sql`${`{${seconds.map((each) => textAfter(at, each)).join(",")}}`}::timestamptz[]`;

const textAfter = (at: Date, seconds: number): string => new Date(at.getTime() + seconds * 1000).toISOString();

const oneOf = (column: SQL, values: readonly string[]): SQL =>
  values.length === 0
    ? sql`false`
    : sql`${column} in (${sql.join(
        values.map((value) => sql`${value}`),
        sql`, `,
      )})`;

const never = sql`'-infinity'::timestamptz`;

/** Whether a heartbeat ever came. */
export const hasHeartbeat = sql`last_heartbeat_at > ${never}`;

/** Whether an envelope ever came. */
export const hasForwarded = sql`last_envelope_at > ${never}`;

/** Heartbeats without ever having forwarded: the count of the summary and the filter are the same predicate. */
export const neverForwarded = sql`(${hasHeartbeat} and last_envelope_at = ${never})`;

/** Whether the last heartbeat is recent, the complement of `stale` for a host that ever reported. */
export const heartbeatRecent = ({ now, thresholds }: FleetRules): SQL =>
  sql`last_heartbeat_at >= ${moment(now, -thresholds.staleAfterSeconds)}`;

const holds: Record<FleetCondition, (rules: FleetRules) => SQL> = {
  revoked: ({ now }) => sql`revoked_from <= ${moment(now)}`,
  enrolling: ({ now, thresholds }) => sql`(last_heartbeat_at = ${never} and last_envelope_at = ${never}
    and enrolled_at > ${moment(now, -thresholds.enrollingSeconds)})`,
  renewal_failed: ({ now }) => sql`(expired_from <= ${moment(now)} or renewal_failed)`,
  stale: ({ now, thresholds }) => sql`(last_heartbeat_at < ${moment(now, -thresholds.staleAfterSeconds)}
    and (${hasHeartbeat} or enrolled_at <= ${moment(now, -thresholds.enrollingSeconds)}))`,
  cert_expiring: ({ now }) => sql`expiring_from <= ${moment(now)}`,
  config_invalid: () => sql`config_invalid`,
  unsupported_version: ({ unsupportedVersions }) => oneOf(sql`version`, unsupportedVersions),
  queue_at_risk: () => sql`queue_at_risk`,
};

/** Whether a condition holds for a row, whatever else does. */
export const conditionHolds = (condition: FleetCondition, rules: FleetRules): SQL => holds[condition](rules);

/** A row's state: the first condition that holds, or `healthy`, as its place in `fleetStates`. */
export const statePlace = (rules: FleetRules): SQL<number> => {
  const cases = fleetConditions.map(
    (condition, place) => sql`when ${holds[condition](rules)} then ${sql.raw(String(place))}`,
  );
  return sql<number>`case ${sql.join(cases, sql` `)} else ${sql.raw(String(fleetConditions.length))} end`;
};

/** The state at a place that `statePlace` gave. */
export const stateAt = (place: number): FleetState => fleetStates[place] ?? "healthy";

/** Conditions that hold from `troubledFrom` on at the earliest: the others need a threshold or the list of versions. */
const ownTroubles: ReadonlySet<FleetCondition> = new Set([
  "revoked",
  "renewal_failed",
  "cert_expiring",
  "config_invalid",
  "queue_at_risk",
]);

/** The row's state is this one: its condition holds and none before it. The same as `statePlace`, in parts that can be planned. */
const stateIs = (state: FleetState, rules: FleetRules): SQL => {
  const place = fleetStates.indexOf(state);
  const before = fleetConditions.slice(0, place).map((condition) => sql`not ${holds[condition](rules)}`);
  if (state === "healthy") return sql`(${sql.join(before, sql` and `)})`;
  const indexed = ownTroubles.has(state) ? [sql`${troubledFrom} <= ${moment(rules.now)}`] : [];
  return sql`(${sql.join([...indexed, holds[state](rules), ...before], sql` and `)})`;
};

/** Which rows an export has, by what holds for them, not by the state alone that is shown first. */
export const exportHolds = (kind: ExportKind, rules: FleetRules): SQL => exports[kind](rules);

const exports: Record<ExportKind, (rules: FleetRules) => SQL> = {
  stale: holds.stale,
  queue_risk: holds.queue_at_risk,
  renewal_failures: holds.renewal_failed,
  config_drift: () => sql`drift in ('drifted', 'on_last_known_good')`,
};

/** The WHERE of a filter over `fleet_host`; `withStates: false` leaves its states out, as the summary does. */
export const fleetPredicate = (filter: FleetFilter, rules: FleetRules, { withStates = true } = {}): SQL => {
  const { now } = rules;
  const parts: SQL[] = [];
  const add = <Value>(value: Value | undefined, part: (value: Value) => SQL) => {
    if (value !== undefined) parts.push(part(value));
  };
  if (withStates)
    add(filter.states, (states) => {
      const any = states.map((state) => stateIs(state, rules));
      return sql`(${sql.join(any, sql` or `)})`;
    });
  add(filter.device, (device) => sql`device_id = ${device}`);
  add(filter.identity, (identity) => sql`identity = ${identity}`);
  add(filter.platform, (platform) => sql`platform = ${platform}`);
  add(filter.version, (version) => sql`version = ${version}`);
  add(filter.notVersion, (version) => sql`version <> ${version}`);
  add(filter.drift, (drift) => sql`drift = ${drift}`);
  add(filter.heartbeatOlderThanSeconds, (age) => sql`(${hasHeartbeat} and last_heartbeat_at < ${moment(now, -age)})`);
  // Whatever has expired by then, its own certificate has: that much an index knows.
  add(filter.expiresWithinSeconds, (within) => {
    const until = moment(now, within);
    return sql`(expired_from <= ${until} and certificate_not_after <= ${until})`;
  });
  add(filter.heartbeat, () => heartbeatRecent(rules));
  add(filter.forwarding, (forwarding) => (forwarding === "never" ? neverForwarded : hasForwarded));
  add(filter.text, (text) => textFound(text, rules));
  return parts.length === 0 ? sql`true` : sql.join(parts, sql` and `);
};

const textFound = (text: string, { versions, platforms }: FleetRules): SQL => {
  const wanted = text.toLowerCase();
  const found = (words: readonly string[]) => words.filter((word) => word.toLowerCase().includes(wanted));
  const parts = [sql`search like lower(${substring(text)})`];
  for (const [column, words] of [
    [sql`version`, found(versions)],
    [sql`platform`, found(platforms)],
  ] as const)
    if (words.length > 0) parts.push(oneOf(column, words));
  return sql`(${sql.join(parts, sql` or `)})`;
};

/** What the states are decided by; the report states them with its answer. */
export interface FleetThresholds {
  heartbeatIntervalSeconds: number;
  /** No heartbeat for longer than this is stale. */
  staleAfterSeconds: number;
  /** For how long after enrollment a silent host is `enrolling` and not yet stale. */
  enrollingSeconds: number;
  /** A certificate with a smaller part of its lifetime left, and no successor, is expiring. */
  certExpiringFraction: number;
  /** Oldest supported SemVer version; null supports any. */
  versionMin: string | null;
}
