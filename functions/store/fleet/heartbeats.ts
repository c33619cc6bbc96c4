import { sql } from "drizzle-orm";
import type { Clock } from "#kit/clock.ts";
import { groupCalls } from "#kit/group-calls.ts";
import type { Labels } from "#proto/labels.ts";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";
import {
  admissionOf,
  type DecisionRow,
  decideProofs,
  type ProofAdmission,
  type ProofUse,
  plausibleUntil,
  spacingSecondsOf,
} from "../certificate/proof-uses.ts";
import type { poolConnections } from "../database/call-limits.ts";
import type { Executor } from "../database/database.ts";
import { canRetryIndividually } from "../database/problem.ts";
import { prepareStatement, timestamptz } from "../database/statements.ts";
import type { FleetThresholds } from "./conditions.ts";
import {
  type AssignedRow,
  assignedConfig,
  type DesiredConfig,
  desiredConfigOf,
  givenCore,
  givenSilence,
  type HealthReport,
  namedValue,
  reportedTypes,
  type SilenceThresholds,
  silenceValues,
  storeReports,
  withoutFigures,
} from "./heartbeat-reports.ts";

/** One heartbeat: its proof and its report. */
interface HeartbeatWrite {
  /** From the certificate. Two certificates of one identity write the same row. */
  identity: string;
  use: ProofUse;
  report: HealthReport;
  /** Null for none. */
  labels: Labels | null;
  /** The subnet of its address, by `subnetOf`. */
  subnet: string;
  /** From `digestKey`, if the host sent a digest with the report. */
  digest?: bigint | undefined;
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
  desiredConfig: DesiredConfig | null;
}

interface RecordRow
  extends DecisionRow,
    AssignedRow,
    Omit<HeartbeatRecord, keyof ProofAdmission | "desiredConfig"> {
  is_recorded: boolean;
}

/** Concurrent statements of heartbeats: as many as their pool has connections. */
const heartbeatStatementsMax: (typeof poolConnections)["heartbeats"] = 2;
/** Heartbeats per statement: enough to share its cost, few enough that the next ones are verified meanwhile. */
const groupMax = 128;

type HeartbeatThresholds = SilenceThresholds & Pick<FleetThresholds, "heartbeatIntervalSeconds">;

/** Where heartbeats are written. */
export interface HeartbeatStore {
  /** Its sessions keep the statement and its plan, which must suit a fleet that grows: see `plansByIndex`. */
  db: Executor;
  /** Resolves when the next statement may start: see `groupCalls`. Without it, statements start as soon as they can. */
  pause?: () => Promise<void>;
  /** Reports whether a core of a previous version runs, which only reads the heartbeat's report: then each report is stored. Default: never. */
  hasOlderCore?: () => boolean;
  /** The machine of the core that receives the heartbeats; unknown by default. */
  core?: string;
}

/** A report of an admitted host. */
interface StoredReport extends HealthReport {
  identity_id: string;
  certificate_id: string | null;
  at: Date;
  report_digest: string | null;
  core: string;
  subnet: string;
}

/** Creates a function that stores a report and resolves when it is committed. Concurrent calls share statements. */
export const createReportStore = (
  { db, core = "" }: HeartbeatStore,
  clock: Pick<Clock, "now">,
  thresholds: SilenceThresholds,
): ((report: Omit<StoredReport, "core">) => Promise<void>) => {
  const run = prepareStatement(db, storeHeartbeats);
  return groupCalls({
    run: async (reports) => {
      const json = JSON.stringify(reports.map((report) => ({ ...report, core })));
      await run({ json, ...silenceValues(clock.now(), thresholds) });
      return reports.map(() => undefined);
    },
    keyOf: ({ identity_id }) => identity_id,
    concurrency: heartbeatStatementsMax,
    itemsMax: groupMax,
    // The reports of a group arrive one after the other.
    gather: () => Promise.resolve(),
    isolate: canRetryIndividually,
  });
};

/**
 * Creates a function that writes a heartbeat and resolves when it is committed. Concurrent heartbeats share statements (see
 * `groupCalls`); two of one identity never share one, and keep their order.
 */
export const createHeartbeatWriter = (
  heartbeats: HeartbeatStore,
  clock: Pick<Clock, "now" | "machineNow">,
  thresholds: HeartbeatThresholds,
) => {
  const { db, pause, hasOlderCore, core = "" } = heartbeats;
  const run = prepareStatement<RecordRow>(db, recordHeartbeats);
  const decide = groupCalls<HeartbeatWrite, RecordRow>({
    ...(pause ? { pause } : {}),
    run: (writes) =>
      run({ ...valuesOf(writes, clock, thresholds), by_core: core, ...repeatsFrom(hasOlderCore) }),
    keyOf: ({ identity }) => identity,
    concurrency: heartbeatStatementsMax,
    itemsMax: groupMax,
    isolate: canRetryIndividually,
  });
  const store = createReportStore(heartbeats, clock, thresholds);
  return async (write: HeartbeatWrite): Promise<HeartbeatRecord> => {
    const at = new Date(clock.now());
    const row = await decide(write);
    const { outcome, is_recorded, identity_id, certificate_id } = row;
    if (outcome === "admitted" && !is_recorded && identity_id !== null)
      await store({
        identity_id,
        certificate_id,
        at,
        report_digest: write.digest?.toString() ?? null,
        subnet: write.subnet,
        ...write.report,
      });
    return recordOf(row);
  };
};

/** Returns the value that keeps a statement from recording a report as repeated while an older core runs. */
export const repeatsFrom = (
  hasOlderCore: HeartbeatStore["hasOlderCore"],
): { stale_before?: string } => (hasOlderCore?.() ? { stale_before: "infinity" } : {});

/** Two boot ids that alternate within this time are a suspected clone. */
const cloneWindowMs = 10 * 60_000;

const valuesOf = (
  writes: readonly HeartbeatWrite[],
  clock: Pick<Clock, "now" | "machineNow">,
  thresholds: HeartbeatThresholds,
) => ({
  json: JSON.stringify(
    writes.map(({ use, report, labels, subnet, digest }, index) => ({
      index,
      fingerprint: use.fingerprintSha256,
      sent_at: new Date(use.sentAt),
      expired: use.expired,
      labels,
      subnet,
      report_digest: digest?.toString() ?? null,
      ...report,
    })),
  ),
  at: new Date(clock.now()).toISOString(),
  stale_before: silenceValues(clock.now(), thresholds).stale_before,
  clone_since: new Date(clock.now() - cloneWindowMs).toISOString(),
  plausible_until: new Date(plausibleUntil(clock)).toISOString(),
  spaced_since: new Date(
    clock.now() - spacingSecondsOf(thresholds.heartbeatIntervalSeconds) * 1000,
  ).toISOString(),
});

const now = namedValue("at", "timestamptz");

const ofProcess = sql.raw(
  Object.values(reportedNumbers.process)
    .map(({ column }) => `${column} = coalesce(n.${column}, -1)`)
    .join(", "),
);

/**
 * Decides on a group of heartbeats, at most one per identity, and records admitted ones that repeat the last report as statuses:
 * `is_recorded`. Returns rows in the order of the group. If the host was stale, or has lost records since, the report must be stored.
 */
const recordHeartbeats = sql`
  with input as materialized (
    select * from json_to_recordset(${namedValue("json", "json")})
      as input (index integer, fingerprint text, sent_at timestamptz, expired boolean, labels jsonb, subnet text, report_digest bigint,
        ${reportedTypes})
  ), ${decideProofs("heartbeat", {
    at: now,
    plausibleUntil: namedValue("plausible_until", "timestamptz"),
    spacedSince: namedValue("spaced_since", "timestamptz"),
  })}, recorded as (
    update fleet_status f set last_heartbeat_at = ${now}, queue_bytes = n.queue_bytes, queue_records = fleet_figure(n.queue_records),
      queue_oldest_seconds = fleet_figure(n.queue_oldest_record_age_seconds),
      last_ack_seconds = fleet_figure(extract(epoch from ${now} - n.forwarder_last_ack_at)::bigint), core = ${givenCore}, subnet = n.subnet,
      ${ofProcess}
    from (
      select decision.*, s.ctid as tid from decision cross join lateral (
        select from collector_health h where h.identity_id = decision.identity_id and h.certificate_id = decision.certificate_id
          and ${withoutFigures("h")} is not distinct from ${withoutFigures("decision")} limit 1
      ) repeated cross join lateral (select ctid from fleet_status where identity_id = decision.identity_id limit 1) s
      where outcome = 'admitted' order by identity_id
    ) n
    where f.ctid = n.tid and f.last_heartbeat_at < ${now} and f.last_heartbeat_at >= ${namedValue("stale_before", "timestamptz")}
      and not f.is_losing and (n.report_digest is null or n.report_digest = f.report_digest)
    returning f.identity_id
  )
  select decision.outcome, decision.certificate_id, decision.identity_id, decision.last_sent_at, decision.first_use,
    recorded.identity_id is not null as is_recorded,
    coalesce(h.certificate_id = decision.certificate_id and h.boot_id <> decision.boot_id
      and h.previous_boot_id = decision.boot_id and h.previous_boot_at >= ${namedValue("clone_since", "timestamptz")}, false) as "isCloneSuspected",
    decision.reported_labels is distinct from decision.labels as "hasOtherLabels",
    extract(epoch from decision.renew_after)::float8 * 1000 as "renewAfter",
    extract(epoch from decision.not_after)::float8 * 1000 as "notAfter",
    extract(epoch from decision.issued_at)::float8 * 1000 as "issuedAt",
    a.config_id, a.config_hash
  from decision left join recorded on recorded.identity_id = decision.identity_id
  -- The previous report. One lookup by key for each row, as in the decision.
  left join lateral (
    select certificate_id, boot_id, previous_boot_id, previous_boot_at from collector_health
    where identity_id = decision.identity_id limit 1
  ) h on true
  left join lateral ${assignedConfig(sql`decision.identity_id`)} a on true
  order by decision.index`;

/** Stores the reports of a group of heartbeats. */
const storeHeartbeats = sql`
  with reports as materialized (
    select * from json_to_recordset(${namedValue("json", "json")})
      as reports (identity_id uuid, certificate_id uuid, at timestamptz, report_digest bigint, core text, subnet text,
        ${reportedTypes})
  ), ${storeReports(sql`reports`, givenSilence)}
  select count(*) from written`;

/** Finds the requests for diagnostics that hosts may still answer at `at`: their ids, by identity. */
export const findOpenDiags = async (
  db: Executor,
  at: Date,
): Promise<ReadonlyMap<string, string>> => {
  const rows = await db.execute<{ id: string; identity_id: string }>(
    sql`select id, identity_id from host_diag where answered_at is null and answer_by > ${timestamptz(at)}`,
  );
  return new Map(rows.map(({ id, identity_id }) => [identity_id, id]));
};

const recordOf = (row: RecordRow): HeartbeatRecord => ({
  ...row,
  ...admissionOf(row),
  desiredConfig: desiredConfigOf(row),
});
