/**
 * Translates the filter of proto/fleet-health/filter.ts to a predicate over `fleet`. No part of it is ever null, so that its negation is
 * exact. Example: the query `drift:drifted -version:1.4.*` is the filter `{ drift: ["drifted"], notVersion: ["1.4.*"] }`. In a fleet with
 * the versions 1.4.0, 1.4.1 and 1.8.2, its predicate is `not version in ('1.4.0', '1.4.1') and drift in ('drifted')`.
 */
import { type SQL, type SQLWrapper, sql } from "drizzle-orm";
import { dayMs, hourMs } from "#kit/clock.ts";
import { byteOfState, hourStates, incompleteStates } from "#proto/completeness/hour-state.ts";
import {
  conjunctiveParts,
  exportFilters,
  type FleetFilter,
  filterPartNames,
  type PositivePart,
  partNegatedBy,
} from "#proto/fleet-health/filter.ts";
import type { ExportKind } from "#proto/fleet-health/vocabulary.ts";
import { anyLabelValue, splitLabelPair } from "#proto/labels.ts";
import { type FigureFilter, figureFilters } from "#proto/management/reported-numbers.ts";
import { substring, texts } from "../database/statements.ts";
import {
  and,
  column,
  compare,
  constant,
  type Expression,
  found,
  multiply,
  never,
  not,
  oneOf,
  or,
  time,
  timestampAt,
} from "./columns/expression.ts";
import {
  conditionPredicate,
  envelopeSecond,
  type FleetRules,
  forwardingIs,
  hasHeartbeat,
  hashBegins,
  hashColumns,
  isActive,
  needsAttention,
  progressPredicate,
  staleBefore,
  stateIs,
} from "./conditions.ts";
import { inventoryPredicate } from "./inventory-status.ts";
import { platformsLike, versionsInRange, versionsLike } from "./versions.ts";

/** Returns the predicate of a filter; `withStates: false` ignores its states, as the summary does. */
export const fleetPredicate = (
  filter: FleetFilter,
  rules: FleetRules,
  { withStates = true } = {},
): Expression =>
  and(
    ...filterPartNames.flatMap((name): Expression[] => {
      const value = filter[name];
      if (value === undefined || (name === "states" && !withStates)) return [];
      const negated = partNegatedBy(name);
      if (negated !== undefined) return [not(or(...alternativesOf(negated, value, rules)))];
      const alternatives = alternativesOf(name as PositivePart, value, rules);
      return conjunctiveParts.has(name) ? alternatives : [or(...alternatives)];
    }),
  );

/** Returns the predicate of a filter and of an export. */
export const exportPredicate = (
  filter: FleetFilter,
  rules: FleetRules,
  kind: ExportKind,
): Expression => and(fleetPredicate(filter, rules), fleetPredicate(exportFilters[kind], rules));

/** The predicates of a part's values: a host matches the part if it matches any, or all of `conjunctiveParts`. */
type PredicatesOf<Value> = (value: Value, rules: FleetRules) => Expression | Expression[];

type Alternatives = {
  [Part in PositivePart]: PredicatesOf<NonNullable<FleetFilter[Part]>>;
};

const alternativesOf = (part: PositivePart, value: unknown, rules: FleetRules): Expression[] =>
  [(alternatives[part] as PredicatesOf<unknown>)(value, rules)].flat();

const each =
  <Value>(predicate: (value: Value, rules: FleetRules) => Expression) =>
  (values: readonly Value[], rules: FleetRules): Expression[] =>
    values.map((value) => predicate(value, rules));

const alternatives: Alternatives = {
  states: each(stateIs),
  attention: (_, rules) => needsAttention(rules),
  text: each((text, rules) => textFound(text, rules)),
  device: (devices) => hasNamed(oneOf("device_id", devices)),
  hostname: (hostnames) => hasNamed(oneOf("hostname", hostnames)),
  identity: (identities) => oneOf("identity", identities),
  platform: (wanted, { platforms }) =>
    oneOf(
      "platform",
      wanted.flatMap((pattern) => platformsLike(pattern, platforms)),
    ),
  version: (wanted, { versions }) =>
    oneOf(
      "version",
      wanted.flatMap((pattern) => versionsLike(pattern, versions)),
    ),
  agent: (kinds) => oneOf("agent", kinds),
  versionRange: each((range, { versions }) => oneOf("version", versionsInRange(range, versions))),
  config: (prefixes) =>
    prefixes.flatMap((prefix) => hashColumns.map((name) => hashBegins(name, prefix))),
  label: (pairs) => [...Map.groupBy(pairs.map(splitLabelPair), ({ key }) => key)].map(labelFound),
  core: (cores) => oneOf("core", cores),
  subnet: (subnets) => oneOf("subnet", subnets),
  // A fleet has few policies.
  policy: (names) =>
    found("policy_id", sql`select id from enrollment_policy where ${oneOf("name", names)}`),
  source: (sources, { now }) =>
    hasNamed(sql`identity in (select host_id collate "C" from volume_source
      where ${ofRecentDays(sql`day`, now)} and ${oneOf("source", sources)})`),
  drift: (kinds) => oneOf("drift", kinds),
  desiredConfig: each((hash) => hashBegins("desired_config", hash)),
  runningConfig: each((hash) => hashBegins("running_config", hash)),
  progress: each(progressPredicate),
  condition: each(conditionPredicate),
  heartbeat: each((kind, rules) => (kind === "recent" ? isActive(rules) : not(hasHeartbeat))),
  forwarding: each(forwardingIs),
  forwarder: each((kind) =>
    kind === "connected"
      ? column("forwarder_connected")
      : and(hasHeartbeat, not(column("forwarder_connected"))),
  ),
  auth: each((kind, { now }) => {
    const failed = compare("last_auth_failure_at", ">=", timestampAt(now, -authFailureSeconds));
    return kind === "failed"
      ? failed
      : and(failed, compare("last_auth_failure_at", ">", column("last_heartbeat_at")));
  }),
  inventory: each(inventoryPredicate),
  budget: (_, { now }) =>
    found(
      "identity_id",
      sql`select h.identity_id from held_host h where h.until > ${timestampAt(now)}`,
    ),
  heartbeatOlderThanSeconds: (age, { now }) =>
    and(hasHeartbeat, compare("last_heartbeat_at", "<", timestampAt(now, -age))),
  heartbeatWithinSeconds: (age, { now }) =>
    compare("last_heartbeat_at", ">=", timestampAt(now, -age)),
  envelopeOlderThanSeconds: (age, { now }) => and(hasForwarded, not(envelopeWithin(age, now))),
  envelopeWithinSeconds: (age, { now }) => envelopeWithin(age, now),
  silentSince: (since) =>
    and(hasForwarded, compare("last_envelope_at", "<", time(Date.parse(since)))),
  changedWithinSeconds: (within, rules) => changedWithin(within, rules),
  incompleteWithinSeconds: (within, { now }) =>
    found(
      "identity_id",
      sql`select h.identity_id from (${incompleteHoursByHost(now.getTime() - within * 1000)}) d
        join fleet_host h on h.identity = d.host_id where d.hours > 0`,
    ),
  // The second condition follows from the first, and can use an index.
  expiresWithinSeconds: (within, { now }) => {
    const until = timestampAt(now, within);
    return and(compare("expired_from", "<=", until), compare("certificate_not_after", "<=", until));
  },
  expires: each((range) => {
    const [from = 0, to = 0] = range.split("..").map(Date.parse);
    return and(
      compare("expired_from", ">=", time(from)),
      compare("expired_from", "<", time(to)),
      compare("certificate_not_after", "<", time(to)),
    );
  }),
  droppedMoreThan: (count) => compare("lost_records", ">", count),
  queueAbovePercent: (percent) =>
    and(
      compare("queue_bytes_max", ">", 0),
      compare(
        multiply(column("queue_bytes"), constant(100)),
        ">",
        multiply(column("queue_bytes_max"), constant(percent)),
      ),
    ),
  ...(Object.assign(
    {},
    ...figureFilters.map(({ part, figure }) => ({
      [part]: (bound: number) => compare(figure, ">", bound),
    })),
  ) as Pick<Alternatives, FigureFilter["part"]>),
  queueFullWithinSeconds: (within, rules) =>
    found("identity_id", sql`select q.identity_id from ${queuesFullWithin(within, rules)} q`),
};

/** Selects hosts by their names. PostgreSQL finds them by an index and reads no other host's names. */
const hasNamed = (which: SQLWrapper): Expression =>
  found("identity_id", sql`select identity_id from fleet_host where ${which}`);

/** Selects the UTC days that contain the 24 hours before a time: its own and the one before. */
export const ofRecentDays = (day: SQL, time: Date): SQL => {
  const last = Math.floor(time.getTime() / dayMs);
  return sql`${day} between ${last - 1}::int and ${last}::int`;
};

/** Selects hosts whose label has one of these values. Evaluated once for each distinct set of labels, of which a fleet has few. */
const labelFound = ([key, wanted]: [key: string, wanted: { value: string }[]]): Expression => {
  const matches = wanted.map(({ value }) =>
    value === anyLabelValue
      ? sql`labels ? ${key}`
      : sql`labels @> ${JSON.stringify({ [key]: value })}::jsonb`,
  );
  return found("label_set_id", sql`select id from label_set where ${sql.join(matches, sql` or `)}`);
};

const authFailureSeconds = dayMs / 1000;

const hasForwarded = compare("last_envelope_at", ">", never);

const envelopeWithin = (age: number, now: Date): Expression =>
  compare("last_envelope_at", ">=", envelopeSecond(now.getTime() - age * 1000));

/** Selects hosts that changed within a time: by a dated event, by a condition that begins with time alone, or by one that ended. */
const changedWithin = (within: number, rules: FleetRules): Expression[] => {
  const { now } = rules;
  const from = timestampAt(now, -within);
  const until = timestampAt(now);
  const recordedColumns = [
    "enrolled_at",
    "config_assigned_at",
    "running_config_since",
    "version_since",
    "condition_since",
    "recovered_at",
  ];
  const startColumns = ["revoked_from", "expired_from", "expiring_from"];
  const earlier = { ...rules, now: new Date(now.getTime() - within * 1000) };
  return [
    ...recordedColumns.map((name) => compare(name, ">=", from)),
    ...startColumns.map((name) => and(compare(name, ">=", from), compare(name, "<=", until))),
    and(
      compare("last_heartbeat_at", ">=", staleBefore(earlier)),
      compare("last_heartbeat_at", "<", staleBefore(rules)),
    ),
  ];
};

/**
 * Returns the predicate of a free text: part of a name, a version or a platform; or an id, a serial number or a fingerprint as other tools
 * print it.
 */
const textFound = (text: string, { versions, platforms }: FleetRules): Expression => {
  const wanted = text.toLowerCase();
  const containing = (words: readonly string[]) =>
    words.filter((word) => word.toLowerCase().includes(wanted));
  const id = idIn(wanted);
  const digits = digitsIn(wanted);
  return or(
    hasNamed(sql`search like lower(${substring(text)})`),
    oneOf("version", containing(versions)),
    oneOf("platform", containing(platforms)),
    ...(id === undefined
      ? []
      : [compare("identity_id", "=", id), ownsCertificate(sql`id = ${id}::uuid`)]),
    ...(digits === undefined ? [] : [ownsCertificate(hasDigits(digits))]),
  );
};

/** Selects hosts by a certificate. */
const ownsCertificate = (which: SQL): Expression =>
  found("identity_id", sql`select identity_id from certificate where ${which}`);

/** Selects certificates by a fingerprint or a serial number. */
const hasDigits = (digits: string): SQL =>
  digits.length === 64
    ? sql`fingerprint_sha256 = decode(${digits}, 'hex')`
    : sql`serial_number = any(${texts(serialsOf(digits))})`;

/** Returns the id in a text: a UUID in lower case, perhaps in braces or as a URN. */
const idIn = (text: string) =>
  /^(?:urn:uuid:|\{)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}?$/.exec(text)?.[1];

/** Returns the hexadecimal digits of a serial number or a SHA-256 fingerprint, as `openssl x509` and browsers print them. */
const digitsIn = (text: string) => {
  const [, digits = ""] =
    /^(?:serial(?: number)?[=:] ?|sha-?256[=:] ?|0x)?([0-9a-f]+(?:[: ][0-9a-f]+)*)$/.exec(text) ??
    [];
  const joined = digits.replace(/[: ]/g, "");
  return /^(?:[0-9a-f]{6,42}|[0-9a-f]{64})$/.test(joined) ? joined : undefined;
};

/** Signers store a serial number with an even number of digits or without leading zeros. */
const serialsOf = (digits: string): string[] => {
  const number = digits.replace(/^0+(?=.)/, "");
  return [...new Set([digits, number, `0${number}`, `00${number}`])];
};

/** Bytes that `translate` removes from states in `escape` format: the complete states, and `\\000` for an hour that is not decided. */
const others = `\\0${hourStates
  .filter((state) => !incompleteStates.includes(state))
  .map((state) => String.fromCharCode(byteOfState(state)))
  .join("")}`;

/** Returns the day of the first hour that begins at a time or later, and the 1-based index of the hour in that day's states. */
const firstHour = (sinceMs: number): { day: number; place: number } => {
  const from = Math.ceil(sinceMs / hourMs) * hourMs;
  const day = Math.floor(from / dayMs);
  return { day, place: (from - day * dayMs) / hourMs + 1 };
};

const incompleteSum = ({ day, place }: { day: number; place: number }): SQL =>
  sql`sum(length(translate(encode(substring(d.states from case d.day when ${day}::int then ${place}::int else 1 end), 'escape'),
    ${others}::text, '')))::int`;

/** The number of a host's incomplete hours that begin at a time or later; null if none of its hours is settled. */
export const incompleteHoursOf = (identity: SQL, sinceMs: number): SQL => {
  const first = firstHour(sinceMs);
  return sql`(select ${incompleteSum(first)} from completeness_day d where d.host_id = ${identity} and d.day >= ${first.day}::int)`;
};

/** Selects `host_id` and the number of incomplete hours, as `hours`, of every host that has one. PostgreSQL finds them by an index. */
export const incompleteHoursByHost = (sinceMs: number): SQL => {
  const first = firstHour(sinceMs);
  return sql`select d.host_id collate "C" as host_id, ${incompleteSum(first)} as hours from completeness_day d
    where d.incomplete_hours > 0 and d.day >= ${first.day}::int group by d.host_id`;
};

/** A rate is measured over at most this time, so that a queue which has stopped growing is soon not said to fill. */
export const queueMeasuredSeconds = 900;
/** A shorter time would measure a burst. */
const queueMeasuredSecondsMin = 240;

/** Selects hosts that send heartbeats and whose oldest record waits: those that forward have younger ones. */
export const queueWaits = (rules: FleetRules): SQL =>
  sql`f.queue_bytes > 0 and f.queue_bytes_max > 0 and f.last_heartbeat_at >= ${staleBefore(rules)}
    and f.queue_oldest_seconds >= ${rules.thresholds.forwardingSeconds}::int`;

/**
 * Selects the queues that are full within a time if they go on as they did: `grew_bytes` in `grew_seconds`, since the first sample of the
 * last quarter of an hour or, where there is none yet, since the oldest record; full in `seconds_left`.
 */
export const queuesFullWithin = (seconds: number, rules: FleetRules): SQL => sql`(
  select *, room * grew_seconds / grew_bytes as seconds_left from (
    select f.identity_id, greatest(f.queue_bytes_max - f.queue_bytes, 0)::float8 as room, f.queue_bytes - coalesce(s.bytes, 0) as grew_bytes,
      coalesce(extract(epoch from f.last_heartbeat_at - s.at)::float8, f.queue_oldest_seconds) as grew_seconds
    from fleet_status f left join lateral (
      select bytes, at from queue_sample where identity_id = f.identity_id
        and at >= f.last_heartbeat_at - make_interval(secs => least(f.queue_oldest_seconds, ${queueMeasuredSeconds}::int))
        and at <= f.last_heartbeat_at - make_interval(secs => ${queueMeasuredSecondsMin}::int)
      order by at limit 1
    ) s on true where ${queueWaits(rules)}
  ) measured where grew_bytes > 0 and room * grew_seconds <= grew_bytes * ${seconds}::float8)`;
