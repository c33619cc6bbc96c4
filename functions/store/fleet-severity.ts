import { type SQL, sql } from "drizzle-orm";
import {
  type FleetCondition,
  type FleetSeverity,
  fleetConditions,
  fleetSeverities,
} from "../../proto/fleet-health/vocabulary.ts";
import { countedAfterColumn } from "./counted-time.ts";
import { conditionPredicate, type FleetRules, forwardingIs, never, timestampAt } from "./fleet-rows.ts";

/**
 * Returns the sort key of `severity`: since when the row is in its state, plus a century for each step of `fleetSeverities`. So one
 * timestamp sorts first by severity, then by age; a cursor holds it like that of any other column.
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

/** In hours, which PostgreSQL adds without a time zone. */
const centuryHours = 876_600;
const hoursOf = (severity: FleetSeverity): number => fleetSeverities.indexOf(severity) * centuryHours;

/** Since when a condition applies, as the domain reports it. */
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
