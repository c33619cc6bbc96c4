import { type SQL, type SQLWrapper, sql } from "drizzle-orm";
import { timestamptz } from "#functions/store/database/statements.ts";
import type { ColumnDescription, RelationSummary } from "#proto/chat/session.ts";
import { fleetConditions, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import {
  conditionPredicate,
  type FleetRules,
  type FleetThresholds,
  stateIndex,
} from "../store/fleet/conditions.ts";
import { relationColumns } from "./relation-columns.ts";

/** A relation that the model may read, with notes on its columns. */
interface Relation extends RelationSummary {
  columns: readonly ColumnDescription[];
  notes(thresholds: FleetThresholds): readonly string[];
}

/** Returns the rules of the states, with the thresholds in force (docs/fleet-health.md). */
const stateNotes = (thresholds: FleetThresholds): readonly string[] => {
  const {
    heartbeatIntervalSeconds,
    staleAfterSeconds,
    enrollingSeconds,
    certExpiringFraction,
    versionMin,
  } = thresholds;
  const meanings: Record<(typeof fleetStates)[number], string> = {
    revoked: "the identity is revoked, or the certificate last used is and no other is active",
    enrolling: `no heartbeat and no envelope yet, enrolled less than ${enrollingSeconds} s ago`,
    renewal_failed:
      "the certificate expired with no valid successor, or the last heartbeat reports a failed renewal",
    stale: `no heartbeat for more than ${staleAfterSeconds} s (hosts send one every ${heartbeatIntervalSeconds} s), or none at all ${enrollingSeconds} s after enrollment`,
    cert_expiring: `less than ${certExpiringFraction} of the certificate's lifetime is left and it has no valid successor`,
    config_invalid: "the last heartbeat reports an invalid config",
    unsupported_version: `the version is not SemVer${versionMin === null ? "" : ` or is below ${versionMin}`}`,
    queue_at_risk:
      "the last heartbeat reports the queue at risk, or records were dropped or rejected since the one before",
    component_unhealthy:
      "the last report of an agent that speaks OpAMP names an unhealthy component",
    healthy: "none of the above",
  };
  return [
    `Precedence of the states: ${fleetStates.join(", ")}.`,
    ...fleetStates.map((state) => `${state}: ${meanings[state]}.`),
  ];
};

const driftNotes = [
  "drift compares running_config_hash with desired_config_hash: in_sync when equal, on_last_known_good when the host reports that it rejected the desired config or rolled it back and runs its last known good one, drifted when it runs another, also because it has not applied the desired one yet, no_desired without a desired config, unknown before it reported a hash.",
];

/** The description of each relation and its notes, which the model reads beside the columns. */
const about: Record<keyof typeof relationColumns, Pick<Relation, "description" | "notes">> = {
  collectors: {
    description:
      "One row per enrolled host: state, conditions, drift, last heartbeat and envelope, certificate, queue, version, policy.",
    notes: (thresholds) => [
      "conditions has every condition that applies, state only the first: where 'stale' = any(conditions).",
      "A null timestamp means that it has not happened. Ages and seconds left are as of the query.",
      ...stateNotes(thresholds),
      ...driftNotes,
    ],
  },
  heartbeats: {
    description:
      "The newest heartbeat of each host, as the host reported it. A host without one has no row.",
    notes: () => [
      "dropped_records_total, dead_letters and file_gaps count since the collector's queue was created: what was lost, which no volume tells.",
    ],
  },
  certificates: {
    description:
      "Every certificate that core issued to a host, with its status. No keys and no PEM.",
    notes: () => [
      "A host has at most one certificate in use and one unused successor (status active, first_used_at null, predecessor_id set).",
      "collectors.certificate_id is the one that the host used last.",
    ],
  },
  config_assignments: {
    description:
      "Which central config each host was assigned, now and in the past. The text of configs is not readable.",
    notes: () => [
      "is_current selects the assignment in force. Whether the host runs it is in collectors.drift.",
    ],
  },
  audit_events: {
    description: "The audit log: who did what to which target, with outcome, reason and details.",
    notes: () => [
      "action is noun.verb, for example collector.enroll, certificate.renew, config.assign, identity.revoke, operator.sign_in.",
      "Events about a host have its identity_id as target_id: join on target_id = identity_id::text.",
    ],
  },
  enrollment_policies: {
    description: "The enrollment policies: which hosts may enroll, limits and use. No tokens.",
    notes: () => ["collectors.policy_id is enrollment_policies.id."],
  },
  ingest_hours: {
    description:
      "How many envelopes each host forwarded, by hour and kind, for the last 48 hours. Not their content.",
    notes: () => [
      "An hour in which a host forwarded nothing has no row; the newest hour is not over yet.",
      "Rejected and discarded envelopes do not count.",
    ],
  },
  incomplete_hours: {
    description:
      "Which hosts lack telemetry of which hour, how much and why, for the last 31 days. An hour without a row is complete, not settled, or none of the host's: it was not enrolled.",
    notes: () => [
      "An hour is settled 15 minutes after its end. short: records are missing. late: the host speaks, its account has not come. silent: it does not speak. core_out: core could not receive.",
      "A later account settles its hour again.",
    ],
  },
  completeness_hours: {
    description:
      "How many hosts had which state of completeness in each settled hour of the whole fleet.",
    notes: () => [
      "undelivered: stored by core, and not with every export. not_running: the host states that no collector ran. not_accounted: the host sends no accounts.",
    ],
  },
  host_history: {
    description:
      "How each host was in the past: a row for each interval that has ended, because something of it changed.",
    notes: () => [
      "How a host is now is in collectors. At a time t a host was as the row says with until_at > t and the lowest until_at; without one it has not changed since.",
      "Who changed what is in audit_events.",
    ],
  },
  host_silences: {
    description:
      "When hosts sent no heartbeats, or no envelopes, for longer than the threshold, and began again.",
    notes: () => ["A silence that lasts has no row: collectors has its age."],
  },
  volume_days: {
    description:
      "How many envelopes each host forwarded by UTC day and kind, for 400 days until two days ago. Not their content.",
    notes: () => [
      "The last two days are in ingest_hours alone. A day on which a host forwarded nothing has no row.",
    ],
  },
  inventory: {
    description:
      "The expected hosts by the inventory, and whether each enrolled. Empty without an inventory.",
    notes: () => [
      "Never enrolled: is_expected and not is_enrolled. Not expected: in collectors with revoked_at null, and not here.",
      "Gone and still sending: not is_expected, and collectors has a recent heartbeat or envelope of it.",
    ],
  },
  watches: {
    description:
      "The watches: which filter of hosts each one counts, how many may match, and how it stands. No receivers.",
    notes: () => ["Who created or changed a watch is in audit_events."],
  },
  watch_events: {
    description:
      "When each watch fired, was resolved, silenced, and its messages were delivered or dropped.",
    notes: () => ["matching_hosts is null where the event has no count."],
  },
};

/** Every relation that the model may read, in the order in which `list_tables` has them. */
export const relations: readonly Relation[] = Object.entries(relationColumns).map(
  ([name, columns]) => ({
    name,
    columns: Object.entries(columns).map(([name, column]) => ({ name, ...column })),
    ...about[name as keyof typeof relationColumns],
  }),
);

/** The views behind the relations that core sends as CTEs. */
const timedViews: Readonly<Record<string, string>> = {
  collectors: "fleet",
  certificates: "issued_certificates",
};

/** The views of the schema "chat", one for each relation. */
export const chatViews = relations.map(({ name }) => timedViews[name] ?? name);

/**
 * Returns the CTEs that precede a statement: the relations that depend on the time and on thresholds, with the states and conditions of
 * functions/store/fleet/conditions.ts.
 */
export const relationsAt = (rules: FleetRules): SQL => sql`collectors as not materialized (
    select ${selected(relationColumns.collectors, collectorExpressions(rules))} from chat.fleet
  ), certificates as not materialized (
    select ${selected(relationColumns.certificates, certificateExpressions(rules))} from chat.issued_certificates
  )`;

const selected = (columns: object, expressions: Readonly<Record<string, SQL>>): SQL =>
  sql.join(
    Object.keys(columns).map(
      (name) => sql`${expressions[name] ?? sql.identifier(name)} as ${sql.identifier(name)}`,
    ),
    sql`, `,
  );

const secondsBetween = (from: SQLWrapper, until: SQLWrapper): SQL =>
  sql`floor(extract(epoch from ${until} - ${from}))::bigint`;
const happened = (column: SQL): SQL => sql`nullif(${column}, '-infinity')`;
const words = (values: readonly string[]): SQL =>
  sql.raw(`array[${values.map((value) => `'${value}'`).join(", ")}]`);

/** As `certificateStatus` of proto/fleet-health/vocabulary.ts decides. */
const statusAt = (status: SQL, notAfter: SQL, now: SQLWrapper): SQL =>
  sql`case when ${status} <> 'revoked' and ${notAfter} <= ${now} then 'expired' else ${status} end`;

const computedOfCollectors = [
  "state",
  "conditions",
  "last_heartbeat_at",
  "heartbeat_age_seconds",
  "last_envelope_at",
  "envelope_age_seconds",
  "certificate_status",
  "certificate_seconds_left",
  "successor_id",
  "successor_not_after",
  "held_by_budget",
  "held_until",
] as const;
const computedOfCertificates = ["status", "seconds_left"] as const;
/** The columns that stand for expressions, of which those of `state` and `conditions` take PostgreSQL 100 KB each to plan. */
export const computedColumns: ReadonlySet<string> = new Set([
  ...computedOfCollectors,
  ...computedOfCertificates,
]);

const collectorExpressions = (
  rules: FleetRules,
): Record<(typeof computedOfCollectors)[number], SQL> => {
  const now = timestamptz(rules.now);
  const heartbeat = happened(sql`last_heartbeat_at`);
  const envelope = happened(sql`last_envelope_at`);
  const applying = fleetConditions.map(
    (condition) =>
      sql`case when ${conditionPredicate(condition, rules)} then ${sql.raw(`'${condition}'`)} end`,
  );
  const hasSuccessor = sql`successor_not_after > ${now}`;
  const isHeld = sql`held_until > ${now}`;
  return {
    state: sql`(${words(fleetStates)})[${stateIndex(rules)} + 1]`,
    conditions: sql`array_remove(array[${sql.join(applying, sql`, `)}], null)`,
    last_heartbeat_at: heartbeat,
    heartbeat_age_seconds: secondsBetween(heartbeat, now),
    last_envelope_at: envelope,
    envelope_age_seconds: secondsBetween(envelope, now),
    certificate_status: statusAt(sql`certificate_status`, sql`certificate_not_after`, now),
    certificate_seconds_left: secondsBetween(now, sql`certificate_not_after`),
    successor_id: sql`case when ${hasSuccessor} then successor_id end`,
    successor_not_after: sql`case when ${hasSuccessor} then successor_not_after end`,
    held_by_budget: sql`case when ${isHeld} then held_by_budget end`,
    held_until: sql`case when ${isHeld} then held_until end`,
  };
};

const certificateExpressions = (
  rules: FleetRules,
): Record<(typeof computedOfCertificates)[number], SQL> => {
  const now = timestamptz(rules.now);
  return {
    status: statusAt(sql`status`, sql`not_after`, now),
    seconds_left: secondsBetween(now, sql`not_after`),
  };
};
