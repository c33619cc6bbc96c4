/** Stores statuses of hosts whose report has not changed. */
import { sql } from "drizzle-orm";
import type { Clock } from "#kit/clock.ts";
import { groupCalls } from "#kit/group-calls.ts";
import { mapValues } from "#kit/map-values.ts";
import { type ProcessFigures, reportedNumbers } from "#proto/management/reported-numbers.ts";
import { canRetryIndividually, isLockTimeout } from "../database/problem.ts";
import { prepareStatement } from "../database/statements.ts";
import {
  type AssignedRow,
  assignedConfig,
  type DesiredConfig,
  desiredConfigOf,
  givenCore,
  givenSilence,
  namedValue,
  reportedNames,
  type SilenceThresholds,
  silenceValues,
  storeReports,
} from "./heartbeat-reports.ts";
import { type HeartbeatStore, repeatsFrom } from "./heartbeats.ts";

/** The figures that a status reports beside its digest. */
export interface StatusFigures {
  queueRecords: number;
  queueBytes: number;
  oldestRecordAgeSeconds: number | null;
  droppedRecordsTotal: number;
  deadLetters: number;
  /** Null before the first ack. */
  lastAckAgeSeconds: number | null;
  process: ProcessFigures;
}

/** A status of a host. */
export interface SeenHost {
  identityId: string;
  /** Milliseconds since the epoch. */
  seenAt: number;
  /** From `digestKey`. */
  digest: bigint;
  /** The subnet of its address, by `subnetOf`. */
  subnet: string;
  figures: StatusFigures;
}

/** The decision on a status. */
interface SeenRecord {
  /** `report_needed`: the digest is not that of the host's last report, and nothing was recorded. */
  outcome: "recorded" | "report_needed";
  desiredConfig: DesiredConfig | null;
}

/** Statuses in a statement. */
const statusesMax = 4096;

interface SeenRow extends AssignedRow {
  identity_id: string;
}

/**
 * Creates a function that records a status and resolves when it is committed. Statuses that arrive before the next statement share it, in
 * the order of identities, so that cores cannot deadlock. An older status never replaces a newer one.
 */
export const createSeenRecorder = (
  { db, pause, hasOlderCore, core = "" }: HeartbeatStore,
  clock: Pick<Clock, "now">,
  thresholds: SilenceThresholds,
): ((seen: SeenHost) => Promise<SeenRecord>) => {
  const record = prepareStatement<SeenRow>(db, recordStatuses);
  const store = prepareStatement<SeenRow>(db, storeStatuses);
  const recordSeen = async (seen: readonly SeenHost[]): Promise<SeenRecord[]> => {
    const silence = silenceValues(clock.now(), thresholds);
    const { stale_before } = silence;
    const recorded = new Map<string, SeenRow>();
    const keep = (rows: readonly SeenRow[]) => {
      for (const row of rows) recorded.set(row.identity_id, row);
    };
    keep(
      await record({
        ...arraysOf(seen),
        by_core: core,
        stale_before,
        ...repeatsFrom(hasOlderCore),
      }),
    );
    const others = seen.filter(({ identityId }) => !recorded.has(identityId));
    if (others.length > 0) keep(await store({ json: jsonOf(others), by_core: core, ...silence }));
    return seen.map(({ identityId }) => {
      const row = recorded.get(identityId);
      return row === undefined
        ? { outcome: "report_needed", desiredConfig: null }
        : { outcome: "recorded", desiredConfig: desiredConfigOf(row) };
    });
  };
  return groupCalls<SeenHost, SeenRecord>({
    ...(pause ? { pause } : {}),
    run: recordSeen,
    keyOf: ({ identityId }) => identityId,
    // Statuses whose certificates were decided together arrive one after the other.
    gather: () => Promise.resolve(),
    // One at a time, so that a group has what arrived during the last one.
    concurrency: 1,
    itemsMax: statusesMax,
    // A row that another transaction has locked must not fail the hosts beside it.
    isolate: (error) => isLockTimeout(error) || canRetryIndividually(error),
  });
};

/** A value of a status, and its type in statements. */
interface StatusValue {
  type: "uuid" | "timestamptz" | "bigint" | "text";
  from(seen: SeenHost): string | number | null;
}

/** The values of a status by their names in statements, in the order of the parameters of `fleet_status_record`. */
const values: Readonly<Record<string, StatusValue>> = {
  id: { type: "uuid", from: ({ identityId }) => identityId },
  at: { type: "timestamptz", from: ({ seenAt }) => new Date(seenAt).toISOString() },
  digest: { type: "bigint", from: ({ digest }) => digest.toString() },
  bytes: { type: "bigint", from: ({ figures }) => figures.queueBytes },
  records: { type: "bigint", from: ({ figures }) => figures.queueRecords },
  oldest: { type: "bigint", from: ({ figures }) => figures.oldestRecordAgeSeconds },
  ack: { type: "bigint", from: ({ figures }) => figures.lastAckAgeSeconds },
  lost: {
    type: "bigint",
    from: ({ figures }) => figures.droppedRecordsTotal + figures.deadLetters,
  },
  subnet: { type: "text", from: ({ subnet }) => subnet },
  ...mapValues(
    reportedNumbers.process,
    ({ column }): StatusValue => ({
      type: "bigint",
      from: ({ figures }) => figures.process[column],
    }),
  ),
};
/** The values with which a report is stored again, which lists the losses individually. */
const storedValues: typeof values = {
  ...values,
  dropped: { type: "bigint", from: ({ figures }) => figures.droppedRecordsTotal },
  dead: { type: "bigint", from: ({ figures }) => figures.deadLetters },
};

const jsonOf = (seen: readonly SeenHost[]) =>
  JSON.stringify(seen.map((each) => mapValues(storedValues, ({ from }) => from(each))));

/** Returns the values of statuses, each as an array of the database. */
const arraysOf = (seen: readonly SeenHost[]): Record<string, string> =>
  mapValues(values, ({ type, from }) => {
    const textOf =
      type === "text"
        ? (each: SeenHost) => `"${from(each)}"`
        : (each: SeenHost) => from(each) ?? "null";
    return `{${seen.map(textOf).join(",")}}`;
  });

const arrays = sql.join(
  Object.entries(values).map(([name, { type }]) => namedValue(name, `${type}[]`)),
  sql`, `,
);
const columnsOfJson = Object.entries(storedValues).map(([name, { type }]) => `${name} ${type}`);
const input = sql`json_to_recordset(${namedValue("json", "json")}) as input (${sql.raw(columnsOfJson.join(", "))})`;

/** Most hosts have no config of core, and need no lookup. */
const recordStatuses = sql`
  select r.host as identity_id, a.config_id, a.config_hash
  from fleet_status_record(${arrays}, ${givenCore}, ${namedValue("stale_before", "timestamptz")}) r
  left join lateral ${assignedConfig(sql`case when r.has_config then r.host end`)} a on true`;

/**
 * Stores the last report of each host again with these figures, unless a newer one is known, and returns the hosts whose report still
 * applies.
 */
const storeStatuses = sql`
  with statuses as materialized (
    select input.*, f.report_digest is not distinct from digest as holds, f.last_heartbeat_at < at as is_newer
    from ${input} left join lateral (
      select report_digest, last_heartbeat_at from fleet_status where identity_id = input.id limit 1
    ) f on true
  ), ${storeReports(
    sql`(
    select h.identity_id, h.certificate_id, s.at, h.report_digest, ${givenCore} as core, s.subnet, ${sql.raw(
      reportedNames
        .map((name) => {
          const figure: Readonly<Record<string, string>> = {
            queue_records: "s.records",
            queue_bytes: "s.bytes",
            queue_oldest_record_age_seconds: "s.oldest",
            dropped_records_total: "s.dropped",
            dead_letters: "s.dead",
            forwarder_last_ack_at: "s.at - make_interval(secs => s.ack)",
            ...mapValues(reportedNumbers.process, ({ column }) => `s.${column}`),
          };
          return `${figure[name] ?? `h.${name}`} as ${name}`;
        })
        .join(", "),
    )}
    from statuses s cross join lateral (select * from collector_health where identity_id = s.id limit 1) h where s.holds and s.is_newer
  )`,
    givenSilence,
  )}
  select s.id as identity_id, a.config_id, a.config_hash from statuses s left join lateral ${assignedConfig(sql`s.id`)} a on true where holds`;
