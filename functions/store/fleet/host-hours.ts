/** The figures of hosts, which comparisons read: now, and at the first minute of each hour. */
import { type SQL, sql } from "drizzle-orm";
import { hourMs } from "#kit/clock.ts";
import type { SentVolume } from "#proto/fleet-health/comparison.ts";
import type { Executor } from "../database/database.ts";
import { timestampAt } from "./rows.ts";

/** What is kept of a host at a time, in the order of the stored numbers; `at` is that of the heartbeat which reported it, in milliseconds. */
const sampledFigures = ["at", "queueBytes", "lostRecords", "starts", "rssBytes", "cpuMs"] as const;

/** The figures of a host at a time; -1 for what it does not report. */
export type HostFigures = Record<(typeof sampledFigures)[number], number>;

/** Returns the figures of a row of `fleet_status` as they are stored. */
export const hostFigures = (row: "f"): SQL =>
  sql.raw(`array[(extract(epoch from ${row}.last_heartbeat_at) * 1000)::bigint, ${row}.queue_bytes, ${row}.lost_records,
    ${row}.starts, ${row}.rss_bytes, ${row}.cpu_ms]::bigint[]`);

/** Converts stored figures. */
const readHostFigures = (stored: readonly number[]): HostFigures =>
  Object.fromEntries(
    sampledFigures.map((name, index) => [name, Number(stored[index])]),
  ) as HostFigures;

/** A host that something has changed, or one that it is compared with. Null: not known. */
export interface FollowedHost {
  isControl: boolean;
  platform: string;
  version: string;
  labelSetId: number;
  isSilent: boolean;
  /** Up to a day before the change, just before it, and when it had taken effect. */
  before: HostFigures | null;
  atChange: HostFigures | null;
  sinceThen: HostFigures | null;
  now: HostFigures;
  /** Its volume in an hour before the change and in one since; null unless it has a whole hour of each. */
  sent: { before: SentVolume; after: SentVolume } | null;
}

/** A followed host as a statement returns it, its figures as JSON. */
export type FollowedRow = Omit<FollowedHost, "before" | "atChange" | "sinceThen" | "now"> &
  Record<"before" | "at_change" | "since_then" | "figures", number[] | null> &
  Record<string, unknown>;

/** Converts a row. */
export const followedHostOf = ({
  before,
  at_change,
  since_then,
  figures,
  ...row
}: FollowedRow): FollowedHost => {
  const known = (stored: number[] | null) => stored && readHostFigures(stored);
  const { isControl, platform, version, labelSetId, isSilent, sent } = row;
  return {
    isControl,
    platform,
    version,
    labelSetId,
    isSilent,
    sent,
    before: known(before),
    atChange: known(at_change),
    sinceThen: known(since_then),
    now: readHostFigures(figures ?? []),
  };
};

const hourOf = (at: Date) => Math.floor(at.getTime() / hourMs);

/** Whole hours that core counts by host for certain (drizzle/schema/ingest.ts). */
const countedHours = 48;

/** When the first of the hosts changed, and the last one. */
export interface ChangeSpan {
  from: Date;
  until: Date;
}

/**
 * Returns what core stored of the host of a row in an hour, by signal: on average of up to a day before a change, and of the whole hours after that
 * of the change. Null without both.
 */
export const sentAround = (row: "f", { from, until }: ChangeSpan, now: Date): SQL => {
  const at = hourOf(from);
  const after = hourOf(until) + 1;
  const end = hourOf(now);
  const first = Math.max(at - 24, end - countedHours);
  if (first >= at || after >= end) return sql`null::jsonb`;
  const timeOf = (hour: number) => timestampAt(new Date(hour * hourMs));
  const between = (from: number, to: number) => sql`(
    select coalesce(jsonb_object_agg(signal, jsonb_build_object('bytes', bytes, 'envelopes', envelopes)), '{}') from (
      select case kind when 'otel_metric' then 'metrics' when 'otel_span' then 'traces' else 'logs' end as signal,
        sum(payload_bytes) / ${to - from}::int as bytes, sum(envelopes) / ${to - from}::int as envelopes
      from ingest_hour where host_id = ${sql.raw(row)}.identity collate "default" and hour >= ${timeOf(from)} and hour < ${timeOf(to)}
        and kind in ('otel_log', 'log_line', 'otel_metric', 'otel_span') group by 1
    ) signals)`;
  return sql`jsonb_build_object('before', ${between(first, at)}, 'after', ${between(after, end)})`;
};

/** Returns the hour of a time, and the first one of the day before it: what a host did before is of up to a day. */
export const hoursAround = (at: Date): { first: number; hour: number } => ({
  first: hourOf(at) - 24,
  hour: hourOf(at),
});

/** Stores the figures of the hosts that have sent a heartbeat within an hour, unless this hour's are stored. Returns whether it did. */
export const sampleHosts = async (db: Executor, now: Date): Promise<boolean> => {
  const hour = hourOf(now);
  const known = await db.execute(sql`select from fleet_hour where hour = ${hour}::int limit 1`);
  if (known.length > 0) return false;
  // In the order of the key, so that two cores which do it at once wait for each other once.
  await db.execute(sql`
    insert into fleet_hour (hour, identity_id, figures)
    select ${hour}::int, f.identity_id, ${hostFigures("f")} from fleet_status f
    where f.last_heartbeat_at >= ${timestampAt(now, -3600)} order by f.identity_id
    on conflict do nothing`);
  return true;
};

/** As long as the figures of hours are kept. */
export const keptHours = 72;
/** Rows of a statement that deletes. */
const deletedMax = 20_000;

/** Deletes figures that are older than three days, a bounded number, and returns how many. */
export const deleteOldFigures = async (db: Executor, now: Date): Promise<number> => {
  const rows = await db.execute(sql`delete from fleet_hour where ctid in (
    select ctid from fleet_hour where hour < ${hourOf(now) - keptHours}::int limit ${deletedMax}) returning 1`);
  return rows.length;
};
