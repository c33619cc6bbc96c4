/** Stores the figures of hosts at the first minute of each hour, and of waiting queues each five minutes, to compare present ones with. */
import { type SQL, sql } from "drizzle-orm";
import { hourMs } from "#kit/clock.ts";
import type { SentVolume } from "#proto/fleet-health/comparison.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { Executor } from "../database/database.ts";
import { timestamptz } from "../database/statements.ts";
import { type CountingRules, type FleetRules, hostsOf, staleBefore } from "./conditions.ts";
import { fleetPredicate, queueMeasuredSeconds, queueWaits } from "./predicate.ts";

/**
 * The stored figures of a host, in this order, as a row `f` of `fleet_status` has them; `at` is the time of the heartbeat that reported
 * them, in milliseconds.
 */
const sampledFigures = {
  at: "(extract(epoch from f.last_heartbeat_at) * 1000)::bigint",
  queueBytes: "f.queue_bytes",
  lostRecords: "f.lost_records",
  starts: "f.starts",
  rssBytes: "f.rss_bytes",
  cpuMs: "f.cpu_ms",
};

/** The figures of a host at a time; -1 for a figure that it does not report. */
export type HostFigures = Record<keyof typeof sampledFigures, number>;

/** The figures of a row `f` as the database stores them. */
export const hostFigures = sql.raw(`array[${Object.values(sampledFigures).join(", ")}]::bigint[]`);

/** Returns stored figures as `HostFigures`; null without. */
export const readFigures = (stored: SQL): SQL => {
  const members = Object.keys(sampledFigures).map(
    (name, index) => sql`${sql.raw(`'${name}'`)}, (${stored})[${sql.raw(String(index + 1))}]`,
  );
  return sql`case when ${stored} is not null then json_build_object(${sql.join(members, sql`, `)}) end`;
};

/** A host that a change reached, or one that it is compared with. Null: unknown. */
export interface FollowedHost extends Record<string, unknown> {
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
  /** Its volume in an hour before the change and since; null unless each has a whole hour. */
  sent: { before: SentVolume; after: SentVolume } | null;
}

const hourOf = (at: Date) => Math.floor(at.getTime() / hourMs);

/** Whole hours that core certainly counts by host (drizzle/schema/ingest.ts). */
const countedHours = 48;

/** When the first and the last of the hosts changed. */
export interface ChangeSpan {
  from: Date;
  until: Date;
}

/**
 * Returns what core stored of the row's host in an hour, by signal: the average of up to a day before a change, and of the whole hours
 * after the change. Null without both.
 */
export const sentAround = (row: "f", { from, until }: ChangeSpan, now: Date): SQL => {
  const at = hourOf(from);
  const after = hourOf(until) + 1;
  const end = hourOf(now);
  const first = Math.max(at - 24, end - countedHours);
  if (first >= at || after >= end) return sql`null::jsonb`;
  const timeOf = (hour: number) => timestamptz(hour * hourMs);
  const between = (from: number, to: number) => sql`(
    select coalesce(jsonb_object_agg(signal, jsonb_build_object('bytes', bytes, 'envelopes', envelopes)), '{}') from (
      select case kind when 'otel_metric' then 'metrics' when 'otel_span' then 'traces' else 'logs' end as signal,
        sum(payload_bytes) / ${to - from}::int as bytes, sum(envelopes) / ${to - from}::int as envelopes
      from ingest_hour where host_id = ${sql.raw(row)}.identity collate "default" and hour >= ${timeOf(from)} and hour < ${timeOf(to)}
        and kind in ('otel_log', 'log_line', 'otel_metric', 'otel_span') group by 1
    ) signals)`;
  return sql`jsonb_build_object('before', ${between(first, at)}, 'after', ${between(after, end)})`;
};

/** Returns the hour of a time, and the first hour of the day before it. */
export const hoursAround = (at: Date): { first: number; hour: number } => ({
  first: hourOf(at) - 24,
  hour: hourOf(at),
});

/** Stores the figures of the hosts that have sent a heartbeat within an hour, unless this hour's are stored. Returns whether it did. */
export const sampleHosts = async (db: Executor, now: Date): Promise<boolean> => {
  const hour = hourOf(now);
  const known = await db.execute(sql`select from fleet_hour where hour = ${hour}::int limit 1`);
  if (known.length > 0) return false;
  // In the order of the key, so that concurrent cores wait for each other only once.
  await db.execute(sql`
    insert into fleet_hour (hour, identity_id, figures)
    select ${hour}::int, f.identity_id, ${hostFigures} from fleet_status f
    where f.last_heartbeat_at >= ${timestamptz(now, -3600)} order by f.identity_id
    on conflict do nothing`);
  return true;
};

/** Stores the sizes of queues whose oldest record waits, and deletes those that are too old to measure by. */
export const sampleQueues = async (db: Executor, rules: FleetRules): Promise<void> => {
  // Heartbeats may be as much older.
  const keptFrom = timestamptz(rules.now, -2 * queueMeasuredSeconds);
  await db.execute(sql`with old as (delete from queue_sample where at < ${keptFrom})
    insert into queue_sample (identity_id, at, bytes)
    select f.identity_id, f.last_heartbeat_at, f.queue_bytes from fleet_status f where ${queueWaits(rules)}
    order by f.identity_id on conflict do nothing`);
};

/** Hours for which figures are kept. */
export const keptHours = 72;
/** Rows of a statement that deletes. */
const deletedMax = 20_000;

/** Deletes a bounded number of figures that are older than three days, and returns how many. */
export const deleteOldFigures = async (db: Executor, now: Date): Promise<number> => {
  const rows = await db.execute(sql`delete from fleet_hour where ctid in (
    select ctid from fleet_hour where hour < ${hourOf(now) - keptHours}::int limit ${deletedMax}) returning 1`);
  return rows.length;
};

/** As for a wave of a rollout. */
const changedMax = 2000;
const controlMax = 8000;

/** Selects the hosts of a filter as changed, and all others; for `findFollowedHosts`. */
export const hostsOfFilter = (filter: FleetFilter, rules: FleetRules): SQL => sql`
    select identity_id, platform, version, label_set_id, ${fleetPredicate(filter, rules)} as is_changed
    from ${hostsOf(rules)} where revoked_from > ${timestamptz(rules.now)}`;

/**
 * Finds changed hosts, and others on their platforms, each group in random order. Omits hosts without figures from before the change. If an
 * hour has no figures, because core or a host was unavailable, uses those of the adjacent hour.
 */
export const findFollowedHosts = (
  db: Executor,
  hosts: SQL,
  span: ChangeSpan,
  rules: CountingRules,
): Promise<FollowedHost[]> => {
  const { first, hour } = hoursAround(span.from);
  const chosen = (isChanged: boolean, max: number) => sql`(
      select *, md5(identity_id::text) as lot from hosts where is_changed = ${sql.raw(String(isChanged))}
        and platform in (select platform from hosts where is_changed)
      order by lot limit ${max})`;
  const figuresOf = (hours: SQL) =>
    sql`select figures from fleet_hour where identity_id = c.identity_id and hour = any(${hours})`;
  const next = sql`(select min(hour) from fleet_hour where hour > ${hoursAround(span.until).hour}::int)`;
  return db.execute<FollowedHost>(sql`
    with hosts as materialized (${hosts}), chosen as (${chosen(true, changedMax)} union all ${chosen(false, controlMax)})
    select not c.is_changed as "isControl", c.platform, c.version, c.label_set_id as "labelSetId",
      f.last_heartbeat_at < ${staleBefore(rules)} as "isSilent", ${readFigures(sql`b.figures`)} as before,
      ${readFigures(sql`s.figures`)} as "atChange", ${readFigures(sql`a.figures`)} as "sinceThen", ${readFigures(hostFigures)} as now,
      ${sentAround("f", span, rules.now)} as sent
    from chosen c join fleet_status f on f.identity_id = c.identity_id
    cross join lateral (
      ${figuresOf(sql`array[${hour}::int, (select max(hour) from fleet_hour where hour < ${hour}::int)]`)}
        and figures[1] <= ${span.from.getTime()}::bigint order by hour desc limit 1
    ) s
    left join fleet_hour b on b.identity_id = c.identity_id
      and b.hour = (select min(hour) from fleet_hour where hour >= ${first}::int and hour < ${hour}::int)
    left join lateral (${figuresOf(sql`array[${next}, ${next} + 1]`)} order by hour limit 1) a on true
    order by c.lot`);
};
