import { getTableColumns, type SQL, sql } from "drizzle-orm";
import { collectorHealth } from "../../../drizzle/schema/health.ts";
import type { Clock } from "../../../kit/clock.ts";
import { groupCalls } from "../../../kit/group-calls.ts";
import type { Labels } from "../../../proto/labels.ts";
import type { HeartbeatRequest } from "../../../proto/management/heartbeat.ts";
import {
  admissionOf,
  type DecisionRow,
  decideProofs,
  type ProofAdmission,
  type ProofUse,
  plausibleUntil,
} from "../certificate/proof-uses.ts";
import type { Executor } from "../database/database.ts";
import { prepareStatement } from "../database/execute-prepared.ts";
import { canRetryIndividually } from "../database/problem.ts";
import type { FleetThresholds } from "./rows.ts";

/** Returns a heartbeat as the columns of `collector_health` that it reports, by their names. Times are RFC 3339. */
export const healthReportOf = (request: HeartbeatRequest) => {
  const { collector, config, queue, forwarder, renewal } = request;
  return {
    boot_id: request.boot_id,
    collector_version: collector.version,
    collector_commit: collector.commit,
    hostname: collector.hostname,
    platform: collector.platform,
    started_at: collector.started_at,
    config_valid: config.valid,
    config_errors: config.errors,
    running_config_hash: config.running_config_hash,
    desired_config_hash: config.desired_config_hash ?? null,
    last_known_good_config_hash: config.last_known_good_config_hash ?? null,
    apply_desired_config: config.apply_desired_config ?? null,
    queue_records: queue.records,
    queue_bytes: queue.bytes,
    queue_bytes_max: queue.max_bytes,
    queue_oldest_record_age_seconds: queue.oldest_record_age_seconds,
    dropped_records_total: queue.dropped_records_total,
    dead_letters: queue.dead_letters,
    queue_forks: queue.forks_total,
    file_gaps: queue.file_gaps_total,
    file_gap_bytes: queue.file_gap_bytes_total,
    queue_at_risk: queue.at_risk,
    forwarder_connected: forwarder.connected,
    forwarder_last_ack_at: forwarder.last_ack_at,
    forwarder_last_error: forwarder.last_error,
    renewal_status: renewal.status,
    renewal_last_attempt_at: renewal.last_attempt_at,
    renewal_next_attempt_at: renewal.next_attempt_at,
    renewal_last_error: renewal.last_error,
  };
};

/** The reported columns of `collector_health`. */
export type HealthReport = ReturnType<typeof healthReportOf>;

/** One heartbeat: its proof and its report. */
export interface HeartbeatWrite {
  /** From the certificate. Two certificates of one identity write the same row. */
  identity: string;
  use: ProofUse;
  report: HealthReport;
  /** Null for none. */
  labels: Labels | null;
}

/** The decision on a heartbeat, and what the response needs. */
export interface HeartbeatRecord extends ProofAdmission {
  /** This boot id and the previous one alternate on one certificate. */
  isCloneSuspected: boolean;
  /** The host reports other labels than those stored. */
  hasOtherLabels: boolean;
  renewAfter: number | null;
  notAfter: number | null;
  issuedAt: number | null;
  desiredConfig: { configId: string; configHash: string } | null;
}

interface RecordRow extends DecisionRow {
  clone_suspected: boolean;
  other_labels: boolean;
  renew_after: number | null;
  not_after: number | null;
  issued_at: number | null;
  config_id: string | null;
  config_hash: string | null;
}

/** Columns of `collector_health` that core fills in. All others come from the report. */
const derivedColumns = new Set([
  "identity_id",
  "certificate_id",
  "last_heartbeat_at",
  "previous_boot_id",
  "previous_boot_at",
  "dropped_since_previous",
  "version_since",
  "running_config_since",
  "config_invalid_since",
  "queue_at_risk_since",
  "renewal_failed_since",
  "recovered_at",
]);
const reportColumns = Object.values(getTableColumns(collectorHealth)).filter(({ name }) => !derivedColumns.has(name));
const columnTypes = sql.raw(reportColumns.map((column) => `${column.name} ${column.getSQLType()}`).join(", "));
const names = sql.raw(reportColumns.map(({ name }) => name).join(", "));
const assignments = sql.raw(reportColumns.map(({ name }) => `${name} = excluded.${name}`).join(", "));

const hasDropped = sql.raw(
  `(excluded.dropped_records_total > h.dropped_records_total or excluded.dead_letters > h.dead_letters
    or excluded.file_gaps > h.file_gaps)`,
);
/** A condition of the previous report ended with this one. */
const hasRecovered = sql`((not h.config_valid and excluded.config_valid)
  or ((h.queue_at_risk or h.dropped_since_previous) and not (excluded.queue_at_risk or ${hasDropped}))
  or (h.renewal_status = 'failed' and excluded.renewal_status <> 'failed'))`;

const timestamp = (name: Exclude<keyof ReturnType<typeof valuesOf>, "json" | "return_seconds">): SQL =>
  sql`${sql.placeholder(name)}::timestamptz`;
const at = timestamp("at");

/** The host was stale: silent for too long, not counting the time in which core could not receive, as `countedBefore`. */
const wasStale = sql`(h.last_heartbeat_at < ${timestamp("stale_before")} and h.last_heartbeat_at < ${timestamp("stale_before")} - (
    select coalesce(sum(least(counted_from, ${at}) - greatest(began_at, h.last_heartbeat_at)), interval '0')
    from (select began_at, ended_at + make_interval(secs => ${sql.placeholder("return_seconds")}::int) as counted_from from core_outage) o
    where counted_from > h.last_heartbeat_at and began_at < ${at}))`;

/** Statements of heartbeats at a time: one is written while the other waits for its commit. */
export const heartbeatStatementsMax = 2;
/** Heartbeats per statement: enough to share its cost, few enough that the next ones are verified meanwhile. */
const groupMax = 128;

/** Where heartbeats are written. */
export interface HeartbeatStore {
  /** Its sessions keep the statement and its plan, which must suit a fleet that grows: see `plansByIndex`. */
  db: Executor;
  /** Resolves when the next statement may start after one has: see `groupCalls`. Without it, statements start as soon as they can. */
  pause?: () => Promise<void>;
}

/** When a host without heartbeats becomes stale: since the last one, or since its enrollment. */
export type SilenceThresholds = Pick<FleetThresholds, "staleAfterSeconds" | "enrollingSeconds" | "returnSeconds">;

/**
 * Creates a function that writes a heartbeat and resolves when it is committed. Concurrent heartbeats share statements (see
 * `groupCalls`); two of one identity never share one, and keep their order.
 */
export const createHeartbeatWriter = (
  { db, pause }: HeartbeatStore,
  clock: Pick<Clock, "now" | "machineNow">,
  thresholds: SilenceThresholds,
) => {
  const record = prepareStatement<RecordRow>(db, recordHeartbeats);
  return groupCalls<HeartbeatWrite, HeartbeatRecord>({
    ...(pause ? { pause } : {}),
    run: async (writes) => (await record(valuesOf(writes, clock, thresholds))).map(recordOf),
    keyOf: ({ identity }) => identity,
    concurrency: heartbeatStatementsMax,
    itemsMax: groupMax,
    isolate: canRetryIndividually,
  });
};

/** Two boot ids that alternate within this time are a suspected clone. */
const cloneWindowMs = 10 * 60_000;

const valuesOf = (
  writes: readonly HeartbeatWrite[],
  clock: Pick<Clock, "now" | "machineNow">,
  thresholds: SilenceThresholds,
) => {
  const now = clock.now();
  const before = (ms: number) => new Date(now - ms).toISOString();
  return {
    json: JSON.stringify(
      writes.map(({ use, report, labels }, index) => ({
        index,
        fingerprint: use.fingerprintSha256,
        sent_at: new Date(use.sentAt).toISOString(),
        expired: use.expired,
        labels,
        ...report,
      })),
    ),
    at: before(0),
    stale_before: before(thresholds.staleAfterSeconds * 1000),
    enrolling_before: before(thresholds.enrollingSeconds * 1000),
    clone_since: before(cloneWindowMs),
    plausible_until: new Date(plausibleUntil(clock)).toISOString(),
    return_seconds: thresholds.returnSeconds,
  };
};

/**
 * Decides on a group of heartbeats and stores the admitted ones: at most one heartbeat per identity. Its rows are in the order of the
 * group.
 */
const recordHeartbeats = sql`
  with input as materialized (
    select * from json_to_recordset(${sql.placeholder("json")}::json)
      as input (index integer, fingerprint text, sent_at timestamptz, expired boolean, labels jsonb, ${columnTypes})
  ), ${decideProofs("heartbeat", { at, plausibleUntil: timestamp("plausible_until") })}, written as (
    insert into collector_health as h
      (identity_id, certificate_id, last_heartbeat_at, dropped_since_previous, version_since, running_config_since, config_invalid_since,
        queue_at_risk_since, renewal_failed_since, recovered_at, ${names})
    select identity_id, certificate_id, ${at}, false, ${at}, ${at}, case when not config_valid then ${at} end,
      case when queue_at_risk then ${at} end, case when renewal_status = 'failed' then ${at} end,
      case when enrolled_at <= ${timestamp("enrolling_before")} then ${at} end, ${names}
    from decision
    where outcome = 'admitted' order by identity_id
    on conflict (identity_id) do update set
      certificate_id = excluded.certificate_id,
      last_heartbeat_at = excluded.last_heartbeat_at,
      dropped_since_previous = ${hasDropped},
      version_since = case when excluded.collector_version = h.collector_version
        then coalesce(h.version_since, ${at}) else ${at} end,
      running_config_since = case when excluded.running_config_hash is not distinct from h.running_config_hash
        then coalesce(h.running_config_since, ${at}) else ${at} end,
      -- A previous core on this schema writes the report but not these columns: a start counts only while the last report had the condition.
      config_invalid_since = case when not excluded.config_valid
        then coalesce(case when not h.config_valid then h.config_invalid_since end, ${at}) end,
      queue_at_risk_since = case when excluded.queue_at_risk or ${hasDropped}
        then coalesce(case when h.queue_at_risk or h.dropped_since_previous then h.queue_at_risk_since end, ${at}) end,
      renewal_failed_since = case when excluded.renewal_status = 'failed'
        then coalesce(case when h.renewal_status = 'failed' then h.renewal_failed_since end, ${at}) end,
      recovered_at = case when ${wasStale} or ${hasRecovered} then ${at} else h.recovered_at end,
      previous_boot_id = case when h.boot_id <> excluded.boot_id then h.boot_id else h.previous_boot_id end,
      previous_boot_at = case when h.boot_id <> excluded.boot_id then h.last_heartbeat_at else h.previous_boot_at end,
      ${assignments}
  )
  select decision.outcome, decision.certificate_id, decision.identity_id, decision.last_sent_at, decision.first_use,
    coalesce(h.certificate_id = decision.certificate_id and h.boot_id <> decision.boot_id
      and h.previous_boot_id = decision.boot_id and h.previous_boot_at >= ${timestamp("clone_since")}, false) as clone_suspected,
    decision.reported_labels is distinct from decision.labels as other_labels,
    extract(epoch from decision.renew_after)::float8 * 1000 as renew_after,
    extract(epoch from decision.not_after)::float8 * 1000 as not_after,
    extract(epoch from decision.issued_at)::float8 * 1000 as issued_at,
    a.config_id, a.config_hash
  from decision
  -- The previous report, by the snapshot of the statement. One lookup by key for each row, as in the decision.
  left join lateral (
    select certificate_id, boot_id, previous_boot_id, previous_boot_at from collector_health
    where identity_id = decision.identity_id limit 1
  ) h on true
  left join lateral (
    select config_id, (select config_hash from collector_config where id = config_id) as config_hash from config_assignment
    where identity_id = decision.identity_id and ended_at is null limit 1
  ) a on true
  order by decision.index`;

const recordOf = (row: RecordRow): HeartbeatRecord => ({
  ...admissionOf(row),
  isCloneSuspected: row.clone_suspected,
  hasOtherLabels: row.other_labels,
  renewAfter: row.renew_after,
  notAfter: row.not_after,
  issuedAt: row.issued_at,
  desiredConfig:
    row.config_id === null || row.config_hash === null
      ? null
      : { configId: row.config_id, configHash: row.config_hash },
});
