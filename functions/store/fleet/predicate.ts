/**
 * Translates the filter of proto/fleet-health/filter.ts to a predicate over `fleet`. No part of it is ever null, so that its negation is
 * exact.
 */
import { type SQL, sql } from "drizzle-orm";
import { dayMs, hourMs } from "#kit/clock.ts";
import { byteOfState, incompleteStates } from "#proto/completeness/hour-note.ts";
import { hourStates } from "#proto/completeness/hour-state.ts";
import {
  conjunctiveParts,
  exportFilters,
  type FilterPart,
  type FleetFilter,
  filterPartNames,
  negatedPart,
  type PositivePart,
} from "#proto/fleet-health/filter.ts";
import type { EnrolledStatus, ExportKind } from "#proto/fleet-health/vocabulary.ts";
import { anyLabelValue, splitLabelPair } from "#proto/labels.ts";
import { type FigureFilter, figureFilters } from "#proto/management/reported-numbers.ts";
import { arrayLiteral, substring } from "../database/statements.ts";
import {
  conditionPredicate,
  type FleetRules,
  forwardingIs,
  hasHeartbeat,
  hashBegins,
  isActive,
  needsAttention,
  never,
  oneOf,
  progressPredicate,
  staleBefore,
  stateIs,
  timestampAt,
} from "./rows.ts";
import { platformsLike, versionsInRange, versionsLike } from "./versions.ts";

/** Returns the WHERE clause of a filter; `withStates: false` ignores its states, as the summary does. */
export const fleetPredicate = (
  filter: FleetFilter,
  rules: FleetRules,
  { withStates = true } = {},
): SQL => {
  const parts = filterPartNames.flatMap((name): SQL[] => {
    const value = filter[name];
    if (value === undefined || (name === "states" && !withStates)) return [];
    const positive = positiveOf.get(name);
    if (positive !== undefined) return [sql`not ${anyOf(alternativesOf(positive, value, rules))}`];
    const alternatives = alternativesOf(name as PositivePart, value, rules);
    return conjunctiveParts.has(name) ? alternatives : [anyOf(alternatives)];
  });
  return parts.length === 0 ? sql`true` : sql.join(parts, sql` and `);
};

/** Returns the predicate of an export. */
export const exportPredicate = (kind: ExportKind, rules: FleetRules): SQL =>
  fleetPredicate(exportFilters[kind], rules);

const positiveOf = new Map(
  filterPartNames.flatMap((name) => {
    const negated = negatedPart(name as PositivePart);
    return negated === undefined
      ? []
      : [[negated, name as PositivePart] as [FilterPart, PositivePart]];
  }),
);

const anyOf = (alternatives: SQL[]): SQL => sql`(${sql.join(alternatives, sql` or `)})`;

/** The predicates of a part's values, at least one: a host matches the part if it matches any, or all of `conjunctiveParts`. */
type Alternatives = {
  [Part in PositivePart]: (value: NonNullable<FleetFilter[Part]>, rules: FleetRules) => SQL[];
};

const alternativesOf = (part: PositivePart, value: unknown, rules: FleetRules): SQL[] =>
  (alternatives[part] as (value: unknown, rules: FleetRules) => SQL[])(value, rules);

const alternatives: Alternatives = {
  states: (states, rules) => states.map((state) => stateIs(state, rules)),
  attention: (_, rules) => [needsAttention(rules)],
  text: (texts, rules) => texts.map((text) => textFound(text, rules)),
  device: (devices) => [hasNamed(oneOf(sql`device_id`, devices))],
  hostname: (hostnames) => [hasNamed(oneOf(sql`hostname`, hostnames))],
  identity: (identities) => [oneOf(sql`identity`, identities)],
  platform: (wanted, { platforms }) => [
    oneOf(
      sql`platform`,
      wanted.flatMap((each) => platformsLike(each, platforms)),
    ),
  ],
  version: (wanted, { versions }) => [
    oneOf(
      sql`version`,
      wanted.flatMap((each) => versionsLike(each, versions)),
    ),
  ],
  versionRange: (ranges, { versions }) =>
    ranges.map((range) => oneOf(sql`version`, versionsInRange(range, versions))),
  config: (prefixes) =>
    prefixes.flatMap((prefix) => configColumns.map((column) => hashBegins(column, prefix))),
  label: (pairs) => [...Map.groupBy(pairs.map(splitLabelPair), ({ key }) => key)].map(labelFound),
  core: (cores) => [oneOf(sql`core`, cores)],
  subnet: (subnets) => [oneOf(sql`subnet`, subnets)],
  // Evaluated once for the statement: a fleet has few policies.
  policy: (names) => [
    sql`policy_id in (select id from enrollment_policy where ${oneOf(sql`name`, names)})`,
  ],
  source: (sources, { now }) => [
    hasNamed(sql`identity in (select host_id collate "C" from volume_source
      where ${ofRecentDays(sql`day`, now)} and ${oneOf(sql`source`, sources)})`),
  ],
  drift: (kinds) => [oneOf(sql`drift`, kinds)],
  desiredConfig: (hashes) => hashes.map((hash) => hashBegins("desired_config", hash)),
  runningConfig: (hashes) => hashes.map((hash) => hashBegins("running_config", hash)),
  progress: (kinds, rules) => kinds.map((progress) => progressPredicate(progress, rules)),
  condition: (conditions, rules) =>
    conditions.map((condition) => conditionPredicate(condition, rules)),
  heartbeat: (kinds, rules) =>
    kinds.map((kind) => (kind === "recent" ? isActive(rules) : sql`not ${hasHeartbeat}`)),
  forwarding: (kinds, rules) => kinds.map((kind) => forwardingIs(kind, rules)),
  forwarder: (kinds) =>
    kinds.map((kind) =>
      kind === "connected"
        ? sql`forwarder_connected`
        : sql`(${hasHeartbeat} and not forwarder_connected)`,
    ),
  auth: (kinds, { now }) =>
    kinds.map((kind) => {
      const failed = sql`last_auth_failure_at >= ${timestampAt(now, -authFailureSeconds)}`;
      return kind === "failed"
        ? failed
        : sql`(${failed} and last_auth_failure_at > last_heartbeat_at)`;
    }),
  inventory: (statuses, rules) => statuses.map((status) => inventoryPredicate(status, rules)),
  budget: (_, { now }) => [
    sql`identity_id in (select h.identity_id from held_host h where h.until > ${timestampAt(now)})`,
  ],
  heartbeatOlderThanSeconds: (age, { now }) => [
    sql`(${hasHeartbeat} and last_heartbeat_at < ${timestampAt(now, -age)})`,
  ],
  heartbeatWithinSeconds: (age, { now }) => [sql`last_heartbeat_at >= ${timestampAt(now, -age)}`],
  envelopeOlderThanSeconds: (age, { now }) => [
    sql`(${hasForwarded} and not ${envelopeWithin(age, now)})`,
  ],
  envelopeWithinSeconds: (age, { now }) => [envelopeWithin(age, now)],
  silentSince: (since) => [sql`(${hasForwarded} and last_envelope_at < ${since}::timestamptz)`],
  changedWithinSeconds: (within, rules) => changedWithin(within, rules),
  incompleteWithinSeconds: (within, { now }) => [
    sql`identity_id in (${hostsIncompleteSince(now.getTime() - within * 1000)})`,
  ],
  // The second condition follows from the first, and can use an index.
  expiresWithinSeconds: (within, { now }) => {
    const until = timestampAt(now, within);
    return [sql`(expired_from <= ${until} and certificate_not_after <= ${until})`];
  },
  expires: (ranges) =>
    ranges.map((range) => {
      const [from, to] = range.split("..");
      return sql`(expired_from >= ${from}::timestamptz and expired_from < ${to}::timestamptz
        and certificate_not_after < ${to}::timestamptz)`;
    }),
  droppedMoreThan: (count) => [sql`lost_records > ${count}`],
  queueAbovePercent: (percent) => [
    sql`(queue_bytes_max > 0 and queue_bytes * 100 > queue_bytes_max * ${percent})`,
  ],
  ...(Object.assign(
    {},
    ...figureFilters.map(({ part, figure }) => ({
      [part]: (bound: number) => [sql`${sql.raw(figure)} > ${bound}`],
    })),
  ) as Pick<Alternatives, FigureFilter["part"]>),
  // The queue has grown to its size since its oldest record; at that rate the rest fills within the given time.
  queueFullWithinSeconds: (within, { thresholds }) => [
    sql`(queue_bytes > 0 and queue_bytes_max > 0 and queue_oldest_seconds >= ${thresholds.forwardingSeconds}
      and queue_bytes_max::float8 * queue_oldest_seconds <= queue_bytes::float8 * (queue_oldest_seconds::float8 + ${within}))`,
  ],
};

/** Selects hosts by their names. PostgreSQL finds them by an index, once for the statement, and reads no other host's names. */
const hasNamed = (which: SQL): SQL =>
  sql`identity_id in (select identity_id from fleet_host where ${which})`;

/** Selects the UTC days that contain the 24 hours before a time: its own and the one before. */
export const ofRecentDays = (day: SQL, time: Date): SQL => {
  const last = Math.floor(time.getTime() / dayMs);
  return sql`${day} between ${last - 1}::int and ${last}::int`;
};

/** Selects hosts whose label has one of these values. Evaluated once for each distinct set of labels, of which a fleet has few. */
const labelFound = ([key, wanted]: [key: string, wanted: { value: string }[]]): SQL => {
  const matches = wanted.map(({ value }) =>
    value === anyLabelValue
      ? sql`labels ? ${key}`
      : sql`labels @> ${JSON.stringify({ [key]: value })}::jsonb`,
  );
  return sql`label_set_id in (select id from label_set where ${sql.join(matches, sql` or `)})`;
};

const authFailureSeconds = 86_400;

const hasForwarded = sql`last_envelope_at > ${never}`;

/** Rows store the time of the last envelope in whole seconds, so the limit is rounded down to a second. */
const envelopeWithin = (age: number, now: Date): SQL => {
  const from = now.getTime() - age * 1000;
  return sql`last_envelope_at >= ${timestampAt(new Date(from - (((from % 1000) + 1000) % 1000)))}`;
};

const configColumns = ["desired_config", "running_config", "last_known_good_config"] as const;

/** Selects hosts that changed within a time: by a dated event, by a condition that begins with time alone, or by one that ended. */
const changedWithin = (within: number, rules: FleetRules): SQL[] => {
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
    ...recordedColumns.map((column) => sql`${sql.identifier(column)} >= ${from}`),
    ...startColumns.map(
      (column) =>
        sql`(${sql.identifier(column)} >= ${from} and ${sql.identifier(column)} <= ${until})`,
    ),
    sql`(last_heartbeat_at >= ${staleBefore(earlier)} and last_heartbeat_at < ${staleBefore(rules)})`,
  ];
};

/**
 * Returns the predicate of a free text: part of a name, a version or a platform; or an id, a serial number or a fingerprint as other tools
 * print it.
 */
const textFound = (text: string, { versions, platforms }: FleetRules): SQL => {
  const wanted = text.toLowerCase();
  const containing = (words: readonly string[]) =>
    words.filter((word) => word.toLowerCase().includes(wanted));
  const parts = [hasNamed(sql`search like lower(${substring(text)})`)];
  for (const [column, words] of [
    [sql`version`, containing(versions)],
    [sql`platform`, containing(platforms)],
  ] as const)
    if (words.length > 0) parts.push(oneOf(column, words));
  const id = idIn(wanted);
  if (id !== undefined)
    parts.push(sql`identity_id = ${id}::uuid`, ownsCertificate(sql`id = ${id}::uuid`));
  const digits = digitsIn(wanted);
  if (digits !== undefined)
    parts.push(
      ownsCertificate(
        digits.length === 64
          ? sql`fingerprint_sha256 = decode(${digits}, 'hex')`
          : sql`serial_number = any(${arrayLiteral(serialsOf(digits))}::text[])`,
      ),
    );
  return sql`(${sql.join(parts, sql` or `)})`;
};

/** Selects hosts by a certificate, which PostgreSQL looks up once for the statement. */
const ownsCertificate = (which: SQL): SQL =>
  sql`identity_id = any(array(select identity_id from certificate where ${which}))`;

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

const incompleteFrom = (place: SQL): SQL =>
  sql`length(translate(encode(substring(d.states from ${place}), 'escape'), ${others}::text, ''))`;

/**
 * Selects the ids of hosts with an incomplete hour that begins at a time or later. PostgreSQL finds them by an index, once for the
 * statement.
 */
const hostsIncompleteSince = (sinceMs: number): SQL => {
  const { day, place } = firstHour(sinceMs);
  return sql`select h.identity_id from completeness_day d join fleet_host h on h.identity = d.host_id collate "C"
    where d.incomplete_hours > 0 and (d.day > ${day}::int
      or (d.day = ${day}::int and ${incompleteFrom(sql`${place}::int`)} > 0))`;
};

const incompleteSum = ({ day, place }: { day: number; place: number }): SQL =>
  sql`sum(${incompleteFrom(sql`case d.day when ${day}::int then ${place}::int else 1 end`)})::int`;

/** The number of a host's incomplete hours that begin at a time or later; null if none of its hours is settled. */
export const incompleteHoursOf = (identity: SQL, sinceMs: number): SQL => {
  const first = firstHour(sinceMs);
  return sql`(select ${incompleteSum(first)} from completeness_day d where d.host_id = ${identity} and d.day >= ${first.day}::int)`;
};

/** Selects `host_id` and the number of incomplete hours, as `hours`, of every host that has one. */
export const incompleteHoursByHost = (sinceMs: number): SQL => {
  const first = firstHour(sinceMs);
  return sql`select d.host_id collate "C" as host_id, ${incompleteSum(first)} as hours from completeness_day d
    where d.incomplete_hours > 0 and d.day >= ${first.day}::int group by d.host_id`;
};

/** Joins entries of the inventory with hosts by name: an entry names a device id or a whole identity. */
const namedBy = (column: SQL): SQL =>
  sql`select n.name, n.owner, n.labels, n.removed_at, h.identity_id, h.identity
    from inventory_host n join fleet_host h on ${column} = n.name`;

/** Entries of the inventory, including removed ones, with the hosts that they name. */
export const namedHosts = sql`(${namedBy(sql`h.device_id`)} union all ${namedBy(sql`h.identity`)}) named`;

const expectedHosts = sql`select identity_id from ${namedHosts} where removed_at is null`;
const removedHosts = sql`select identity_id from ${namedHosts} where removed_at is not null except ${expectedHosts}`;
/** Empty without an inventory. */
const unknownHosts = sql`select identity_id from fleet_host where exists (select from inventory)
  except select identity_id from ${namedHosts}`;

/** Selects hosts that send heartbeats or telemetry. */
export const stillSends = (rules: FleetRules): SQL =>
  sql`(${isActive(rules)} or ${forwardingIs("forwarding", rules)})`;

/** Returns the predicate that a host of the fleet has this status (`inventoryStatuses`). Never null. */
export const inventoryPredicate = (status: EnrolledStatus, rules: FleetRules): SQL =>
  ({
    expected: () => sql`identity_id in (${expectedHosts})`,
    unexpected: () =>
      sql`(identity_id in (${unknownHosts}) and revoked_from > ${timestampAt(rules.now)})`,
    gone: () => sql`(identity_id in (${removedHosts}) and ${stillSends(rules)})`,
  })[status]();

/** Parts of the statement of rows (report.ts): the status of a host, and who owns it. */
export const inventoryOfRow = ({ now, past }: FleetRules): { columns: SQL; join: SQL } =>
  past
    ? { columns: sql`null as inventory_status, null as inventory_owner`, join: sql`` }
    : {
        columns: sql`case when not exists (select from inventory) then null when n.name is null
            then case when f.revoked_from > ${timestampAt(now)} then 'unexpected' end
          when n.removed_at is null then 'expected' when f.still_sends then 'gone' end as inventory_status,
          n.owner as inventory_owner`,
        join: sql`left join lateral (
            select name, owner, removed_at from inventory_host where name in (f.device_id, f.identity)
            order by removed_at nulls first limit 1
          ) n on true`,
      };
