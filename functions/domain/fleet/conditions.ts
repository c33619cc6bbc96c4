import type { CountingRules, FleetThresholds } from "#functions/store/fleet/conditions.ts";
import {
  countedAfter,
  type Outage,
  uncountedSeconds,
} from "#functions/store/fleet/counted-time.ts";
import type { FleetRow } from "#functions/store/fleet/host-rows.ts";
import { rfc3339, timestampOf } from "#kit/clock.ts";
import { type FleetCondition, fleetConditions } from "#proto/fleet-health/vocabulary.ts";

/** A condition that applies to a host: since when, as far as core knows, and its evidence in words. */
interface Condition {
  state: FleetCondition;
  since: string;
  evidence: string;
}

/** Explains every condition that applies to a row, in order of precedence. SQL has decided which apply. */
export const conditionsOf = (
  row: FleetRow,
  { thresholds, now, outages }: CountingRules,
): Condition[] =>
  fleetConditions
    .filter((state) => row[`is_${state}`])
    .map((state) => {
      const { since, evidence } = explanations[state](row, thresholds, now.getTime(), outages);
      return {
        state,
        since: typeof since === "string" ? timestampOf(since) : rfc3339(since),
        evidence,
      };
    });

type Explain = (
  row: FleetRow,
  thresholds: FleetThresholds,
  now: number,
  outages: readonly Outage[],
) => { since: number | string; evidence: string };

const ms = (text: string | null) => (text === null ? 0 : Date.parse(timestampOf(text)));
const ageSeconds = (text: string | null, now: number) =>
  Math.max(0, Math.floor((now - ms(text)) / 1000));
/** Reports whether a timestamp of the database is finite. */
const isTime = (text: string) => !text.endsWith("infinity");
/** The start of a condition without a recorded start: at the latest, the newest heartbeat. */
const lastReport = (row: FleetRow) => row.last_heartbeat_at ?? row.enrolled_at;

const gapEvidence = ({ gap_records_max: most }: FleetRow) =>
  most === null ? "" : `, up to ${most} lost in a database restore`;

/** Describes the part of a silence that does not count, because core could not receive. */
const outageEvidence = (from: number, until: number, outages: readonly Outage[]) => {
  const seconds = Math.round(uncountedSeconds(from, until, outages));
  return seconds === 0
    ? ""
    : `, not counting ${seconds} s in which core could not receive or hosts were coming back`;
};

/** Describes permanent losses, which a nearly empty queue does not show. */
const lossEvidence = ({ dropped_records_total: dropped, file_gaps: gaps }: FleetRow) =>
  [
    ...(Number(dropped) > 0
      ? [`, ${dropped} ${Number(dropped) === 1 ? "record" : "records"} dropped in all`]
      : []),
    ...(Number(gaps) > 0
      ? [`, ${gaps} ${Number(gaps) === 1 ? "gap" : "gaps"} in rotated files or the journal`]
      : []),
  ].join("");

const explanations: Record<FleetCondition, Explain> = {
  revoked: (row) =>
    row.revoked_at !== null
      ? { since: row.revoked_at, evidence: "the identity is revoked" }
      : {
          // Other conditions may have applied after the revocation.
          since: isTime(row.revoked_from)
            ? row.revoked_from
            : (row.certificate_revoked_at ?? row.enrolled_at),
          evidence: "the certificate last used is revoked and no other is active",
        },
  enrolling: (row, { enrollingSeconds }, now) => ({
    since: row.enrolled_at,
    evidence: `enrolled ${ageSeconds(row.enrolled_at, now)} s ago, no heartbeat yet, allowed ${enrollingSeconds} s`,
  }),
  renewal_failed: (row, _thresholds, now) =>
    ms(row.expired_from) <= now
      ? {
          since: row.expired_from,
          evidence: `the certificate expired ${ageSeconds(row.certificate_not_after, now)} s ago and has no successor`,
        }
      : {
          since: row.renewal_failed_since ?? lastReport(row),
          evidence: row.renewal_last_error ?? "renewal failed",
        },
  stale: (row, { staleAfterSeconds, enrollingSeconds }, now, outages) =>
    row.last_heartbeat_at === null
      ? {
          since: countedAfter(ms(row.enrolled_at), enrollingSeconds, outages),
          evidence: `no heartbeat since enrollment ${ageSeconds(row.enrolled_at, now)} s ago, threshold ${enrollingSeconds} s${outageEvidence(ms(row.enrolled_at), now, outages)}`,
        }
      : {
          since: countedAfter(ms(row.last_heartbeat_at), staleAfterSeconds, outages),
          evidence: `last heartbeat ${ageSeconds(row.last_heartbeat_at, now)} s ago, threshold ${staleAfterSeconds} s${outageEvidence(ms(row.last_heartbeat_at), now, outages)}${row.forwarding === "forwarding" ? ", still forwards" : ""}`,
        },
  cert_expiring: (row, { certExpiringFraction }, now) => {
    const lifetime = ms(row.certificate_not_after) - ms(row.certificate_issued_at);
    const secondsLeft = Math.max(0, Math.floor((ms(row.certificate_not_after) - now) / 1000));
    const threshold = Math.floor((lifetime * certExpiringFraction) / 1000);
    return {
      since: row.expiring_from,
      evidence: `the certificate has ${secondsLeft} s left, threshold ${threshold} s, and no successor`,
    };
  },
  config_invalid: (row) => ({
    since: row.config_invalid_since ?? lastReport(row),
    evidence: row.config_error ?? "the collector reports an invalid config",
  }),
  unsupported_version: (row, { versionMin, otelcolVersionMin = null }) => {
    const minimum = row.agent === "otelcol" ? otelcolVersionMin : versionMin;
    return {
      since: row.version_since ?? lastReport(row),
      evidence: `the version is not SemVer${minimum === null ? "" : ` ${minimum} or later`}`,
    };
  },
  queue_at_risk: (row) => ({
    since: row.queue_at_risk_since ?? lastReport(row),
    evidence: row.reported_conditions || queueEvidence(row),
  }),
  component_unhealthy: (row) => ({
    since: row.queue_at_risk_since ?? lastReport(row),
    evidence: row.reported_conditions || "the agent reports an unhealthy component",
  }),
};

const queueEvidence = (row: FleetRow): string => {
  // Past figures of the queue are not stored.
  if (row.queue_bytes === null || row.queue_bytes_max === null)
    return "the collector reports that its queue is at risk, or that it lost records";
  if (row.dropped_since_previous)
    return `records were dropped, rejected or lost since the previous heartbeat, ${row.dropped_records_total} dropped and ${row.dead_letters} dead letters in all${gapEvidence(row)}`;
  return `the queue holds ${row.queue_bytes} of ${row.queue_bytes_max} bytes, oldest record ${row.queue_oldest_record_age_seconds ?? 0} s${lossEvidence(row)}`;
};
