/** Stores reports of hosts, and derives facts from them. */
import { type SQL, sql } from "drizzle-orm";
import { describeCondition, type HostReport } from "#proto/management/heartbeat.ts";
import {
  type NumberColumn,
  type ReportedNumber,
  reportedNumbers,
} from "#proto/management/reported-numbers.ts";
import type { FleetThresholds } from "./conditions.ts";

/** A column of `collector_health` that a report fills. */
interface ReportedColumn {
  type: "bigint" | "boolean" | "text" | "text[]" | "timestamptz";
  from(request: HostReport): string | number | boolean | readonly string[] | null;
  /** It changes with each heartbeat of a working host; a change of it alone does not store the report. */
  isFigure?: boolean;
}

/** The reported columns by their names, except numbers. Times are RFC 3339. */
const otherColumns = {
  boot_id: { type: "text", from: ({ boot_id }) => boot_id },
  collector_version: { type: "text", from: ({ collector }) => collector.version },
  agent_name: { type: "text", from: ({ agent_name }) => agent_name ?? null },
  collector_commit: { type: "text", from: ({ collector }) => collector.commit },
  hostname: { type: "text", from: ({ collector }) => collector.hostname },
  platform: { type: "text", from: ({ collector }) => collector.platform },
  started_at: { type: "timestamptz", from: ({ collector }) => collector.started_at },
  config_valid: { type: "boolean", from: ({ config }) => config.valid },
  config_errors: { type: "text[]", from: ({ config }) => config.errors },
  running_config_hash: { type: "text", from: ({ config }) => config.running_config_hash },
  desired_config_hash: { type: "text", from: ({ config }) => config.desired_config_hash ?? null },
  last_known_good_config_hash: {
    type: "text",
    from: ({ config }) => config.last_known_good_config_hash ?? null,
  },
  apply_desired_config: {
    type: "boolean",
    from: ({ config }) => config.apply_desired_config ?? null,
  },
  queue_at_risk: {
    type: "boolean",
    from: ({ queue, conditions }) => queue.at_risk || conditions.length > 0,
  },
  reported_conditions: {
    type: "text[]",
    from: ({ conditions }) => conditions.map(describeCondition),
  },
  ingest_ca_bundle: { type: "bigint", from: ({ ca_bundles }) => ca_bundles?.ingest ?? null },
  management_ca_bundle: {
    type: "bigint",
    from: ({ ca_bundles }) => ca_bundles?.management ?? null,
  },
  ca_pinned: { type: "boolean", from: ({ ca_bundles }) => ca_bundles?.pinned ?? null },
  forwarder_connected: { type: "boolean", from: ({ forwarder }) => forwarder.connected },
  forwarder_last_ack_at: {
    type: "timestamptz",
    from: ({ forwarder }) => forwarder.last_ack_at,
    isFigure: true,
  },
  forwarder_last_error: { type: "text", from: ({ forwarder }) => forwarder.last_error },
  renewal_status: { type: "text", from: ({ renewal }) => renewal.status },
  renewal_last_attempt_at: { type: "timestamptz", from: ({ renewal }) => renewal.last_attempt_at },
  renewal_next_attempt_at: { type: "timestamptz", from: ({ renewal }) => renewal.next_attempt_at },
  renewal_last_error: { type: "text", from: ({ renewal }) => renewal.last_error },
} as const satisfies Readonly<Record<string, ReportedColumn>>;

/** A reported column. */
type ReportedName = keyof HealthReport;

/** A report as the columns that it fills. */
export type HealthReport = Record<NumberColumn, number | null> & {
  [Name in keyof typeof otherColumns]: ReturnType<(typeof otherColumns)[Name]["from"]>;
};

const numbersOf = <Name extends string>(
  numbers: Readonly<Record<Name, ReportedNumber>>,
  groupOf: (
    request: HostReport,
  ) => Readonly<Record<NoInfer<Name>, number | null | undefined>> | undefined,
) =>
  (Object.entries(numbers) as [Name, ReportedNumber][]).map(
    ([name, { column, figure }]): [string, ReportedColumn] => [
      column,
      {
        type: "bigint",
        from: (request) => groupOf(request)?.[name] ?? null,
        isFigure: figure !== undefined,
      },
    ],
  );

const columns = [
  ...Object.entries<ReportedColumn>(otherColumns),
  ...numbersOf(reportedNumbers.queue, ({ queue }) => queue),
  ...numbersOf(reportedNumbers.process, ({ process }) => process),
] as [ReportedName, ReportedColumn][];

/** Returns the columns that a heartbeat fills. */
export const healthReportOf = (request: HostReport): HealthReport =>
  Object.fromEntries(columns.map(([name, { from }]) => [name, from(request)])) as HealthReport;

/** The reported columns with their types, for a recordset. */
export const reportedTypes = sql.raw(
  columns.map(([name, { type }]) => `${name} ${type}`).join(", "),
);
/** The names of the reported columns. */
export const reportedNames: readonly ReportedName[] = columns.map(([name]) => name);
const names = sql.raw(reportedNames.join(", "));
const assignments = sql.raw(reportedNames.map((name) => `${name} = excluded.${name}`).join(", "));

/** Returns the columns of a report in `row` that are not figures. */
export const withoutFigures = (row: string): SQL =>
  sql.raw(
    `row(${columns.flatMap(([name, { isFigure }]) => (isFigure ? [] : `${row}.${name}`)).join(", ")})`,
  );

/** Returns the part of a report's digest that core stores: enough to distinguish the reports of one host. */
export const digestKey = (digest: Uint8Array): bigint =>
  new DataView(digest.buffer, digest.byteOffset).getBigInt64(0) || 1n;

/** Decides when a host without heartbeats becomes stale: so long after the last one, or after its enrollment. */
export type SilenceThresholds = Pick<
  FleetThresholds,
  "staleAfterSeconds" | "enrollingSeconds" | "returnSeconds"
>;

const hasDropped = sql.raw(
  `(excluded.dropped_records_total > h.dropped_records_total or excluded.dead_letters > h.dead_letters
    or excluded.file_gaps > h.file_gaps)`,
);
/** This report ends a condition of the previous one. */
const hasRecovered = sql`((not h.config_valid and excluded.config_valid)
  or ((h.queue_at_risk or h.dropped_since_previous) and not (excluded.queue_at_risk or ${hasDropped}))
  or (h.renewal_status = 'failed' and excluded.renewal_status <> 'failed'))`;

/** The previous heartbeat or status. */
const seenBefore = sql`greatest(h.last_heartbeat_at,
  (select last_heartbeat_at from fleet_status where identity_id = h.identity_id))`;
const at = sql`excluded.last_heartbeat_at`;

/**
 * The host was stale: silent for too long, without the time in which core could not receive, as `countedBefore` counts. Reads outages by
 * their key, since heartbeats are planned without other scans.
 */
const wasStale = ({ staleBefore, returnSeconds }: Silence): SQL => sql`exists(
  select from (select ${seenBefore} as seen_at) p where seen_at < ${staleBefore} and seen_at < ${staleBefore} - (
    select coalesce(sum(least(counted_from, ${at}) - greatest(began_at, seen_at)), interval '0')
    from (select began_at, ended_at + make_interval(secs => ${returnSeconds}) as counted_from from core_outage
      where id >= '00000000-0000-0000-0000-000000000000') o
    where counted_from > seen_at and began_at < ${at}))`;

/** Fragments of a statement that decide when silence counts. */
interface Silence {
  staleBefore: SQL;
  enrollingBefore: SQL;
  returnSeconds: SQL;
}

/**
 * Returns the common table expressions that store reports, at most one per identity, the facts that core derives from them, and the
 * silences that they end. `source` has the columns `identity_id`, `certificate_id`, `at`, `report_digest`, `core`, `subnet` and those of a
 * report.
 */
export const storeReports = (source: SQL, silence: Silence): SQL => sql`written as (
    insert into collector_health as h
      (identity_id, certificate_id, last_heartbeat_at, report_digest, digest_reported_at, core, subnet, dropped_since_previous,
        version_since, running_config_since, config_invalid_since, queue_at_risk_since, renewal_failed_since, recovered_at, ${names})
    select identity_id, certificate_id, at, report_digest, case when report_digest is not null then at end, core, subnet, false, at, at,
      case when not config_valid then at end, case when queue_at_risk then at end, case when renewal_status = 'failed' then at end,
      (select at from collector_identity where id = identity_id and enrolled_at <= ${silence.enrollingBefore}), ${names}
    from ${source} reported order by identity_id
    on conflict (identity_id) do update set
      certificate_id = excluded.certificate_id,
      last_heartbeat_at = excluded.last_heartbeat_at,
      report_digest = excluded.report_digest,
      digest_reported_at = excluded.digest_reported_at,
      core = excluded.core,
      subnet = excluded.subnet,
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
      recovered_at = case when ${wasStale(silence)} or ${hasRecovered} then ${at} else h.recovered_at end,
      starts = h.starts + (h.boot_id <> excluded.boot_id)::int,
      previous_boot_id = case when h.boot_id <> excluded.boot_id then h.boot_id else h.previous_boot_id end,
      previous_boot_at = case when h.boot_id <> excluded.boot_id then ${seenBefore} else h.previous_boot_at end,
      ${assignments}
    returning identity_id
  ), ended as (
    insert into fleet_silence (identity_id, is_of_envelopes, from_at, until_at, queue_bytes)
    select identity_id, false, f.last_heartbeat_at, at, f.queue_bytes from ${source} reported
    cross join lateral (select last_heartbeat_at, queue_bytes from fleet_status where identity_id = reported.identity_id limit 1) f
    where f.last_heartbeat_at < ${silence.staleBefore} and f.last_heartbeat_at < at on conflict do nothing
  )`;

/** Returns a value of a statement by its name. */
export const namedValue = (
  name: string,
  type:
    | "text"
    | "timestamptz"
    | "int"
    | "json"
    | "text[]"
    | "uuid[]"
    | "timestamptz[]"
    | "bigint[]",
): SQL => sql`${sql.placeholder(name)}::${sql.raw(type)}`;

/** The core that receives the reports of a statement: the value `by_core`. */
export const givenCore = namedValue("by_core", "text");

/** The silence by the values of `silenceValues`. */
export const givenSilence: Silence = {
  staleBefore: namedValue("stale_before", "timestamptz"),
  enrollingBefore: namedValue("enrolling_before", "timestamptz"),
  returnSeconds: namedValue("return_seconds", "int"),
};

/** Returns the values of `givenSilence`. */
export const silenceValues = (now: number, thresholds: SilenceThresholds) => ({
  stale_before: new Date(now - thresholds.staleAfterSeconds * 1000).toISOString(),
  enrolling_before: new Date(now - thresholds.enrollingSeconds * 1000).toISOString(),
  return_seconds: thresholds.returnSeconds,
});

/** The config that core has assigned to a host. */
export interface DesiredConfig {
  configId: string;
  configHash: string;
}

/** The columns of `assignedConfig`; null for none. */
export interface AssignedRow {
  config_id: string | null;
  config_hash: string | null;
}

/** Returns the subquery of the config assigned to a host: one lookup by key. */
export const assignedConfig = (identityId: SQL): SQL => sql`(
    select config_id, (select config_hash from collector_config where id = config_id) as config_hash from config_assignment
    where identity_id = ${identityId} and ended_at is null limit 1
  )`;

/** Converts a row of `assignedConfig`. */
export const desiredConfigOf = ({ config_id, config_hash }: AssignedRow): DesiredConfig | null =>
  config_id === null || config_hash === null
    ? null
    : { configId: config_id, configHash: config_hash };
