import { type SQL, type SQLWrapper, sql } from "drizzle-orm";
import { dayMs, hourMs } from "#kit/clock.ts";
import type { Database, Executor } from "../database/database.ts";
import { readScalars, timestamptz } from "../database/statements.ts";
import { tryLock } from "../database/try-lock.ts";

/** `ingest_hour` keeps two days and the current hour, from which the volume of a host is read. */
const recentMs = 49 * hourMs;
/** Days for which hours are kept, and days that are kept. */
const hoursDays = 14;
const daysMax = 400;
const hostsAtOnce = 2_000;

/** Runs in one transaction that holds the lock of volumes. Returns false if another core holds it. */
const withVolumeLock = (db: Database, run: (tx: Executor) => Promise<void>) =>
  db.transaction(async (tx) => {
    const isLocked = await tryLock(tx, "volume");
    if (isLocked) await run(tx);
    return isLocked;
  });

/** Sums a column by hour of the day, in an array of 24. */
const sumByHour = (column: SQL): SQL => {
  const hours = Array.from({ length: 24 }, (_, hour) => {
    const isHour = sql.raw(`extract(hour from hour at time zone 'utc') = ${hour}`);
    return sql`coalesce(sum(${column}) filter (where ${isHour}), 0)::bigint`;
  });
  return sql`array[${sql.join(hours, sql`, `)}]`;
};

/** Adds the arrays of hours of two rows; null if the hours of the day are no longer kept. */
const addHours = (column: SQL, table: SQL): SQL =>
  sql`(select array_agg(coalesce(a, 0) + coalesce(b, 0) order by place)
    from unnest(${table}.${column}, excluded.${column}) with ordinality as both_days (a, b, place) where ${table}.${column} is not null)`;

const addToDay = (
  table: SQL,
): SQL => sql`do update set envelopes = ${table}.envelopes + excluded.envelopes,
  payload_bytes = ${table}.payload_bytes + excluded.payload_bytes,
  hour_envelopes = ${addHours(sql`hour_envelopes`, table)}, hour_bytes = ${addHours(sql`hour_bytes`, table)}`;

const columns = sql`kind, day, envelopes, payload_bytes, hour_envelopes, hour_bytes`;

/**
 * Moves whole days that are older than two days from `ingest_hour` to `volume_day`, in a transaction for each batch of hosts. Adds to a day
 * that exists: a core whose clock is behind may store hours of it later. Returns how many hosts had such rows.
 */
export const foldHours = async (db: Database, now: number): Promise<number> => {
  const until = timestamptz(now - recentMs - ((now - recentMs) % dayMs));
  let folded = 0;
  for (let after = ""; ; ) {
    let hosts: string[] = [];
    const isLocked = await withVolumeLock(db, async (tx) => {
      hosts = await readScalars(
        tx,
        String,
        sql`select distinct host_id as host from ingest_hour where host_id > ${after} and hour < ${until} order by host limit ${hostsAtOnce}`,
      );
      const last = hosts.at(-1);
      if (last !== undefined) await foldHosts(tx, { after, last, until });
    });
    const last = hosts.at(-1);
    if (!isLocked || last === undefined) return folded;
    folded += hosts.length;
    after = last;
  }
};

const foldHosts = async (
  tx: Executor,
  { after, last, until }: { after: string; last: string; until: SQLWrapper },
) => {
  await tx.execute(sql`
    with moved as (
      delete from ingest_hour where host_id > ${after} and host_id <= ${last} and hour < ${until} returning *),
    days as (
      select host_id, kind, floor(extract(epoch from hour) / 86400)::int as day, sum(envelopes)::bigint as envelopes,
        sum(payload_bytes)::bigint as payload_bytes, ${sumByHour(sql`envelopes`)} as hour_envelopes, ${sumByHour(sql`payload_bytes`)} as hour_bytes
      from moved group by 1, 2, 3),
    totals as (
      insert into volume_total as t (${columns})
      select kind, day, sum(envelopes)::bigint, sum(payload_bytes)::bigint, ${sumArrays(sql`hour_envelopes`)}, ${sumArrays(sql`hour_bytes`)}
      from days group by kind, day on conflict (day, kind) ${addToDay(sql`t`)})
    insert into volume_day as d (host_id, ${columns}) select host_id, ${columns} from days order by host_id, day, kind
    on conflict (host_id, day, kind) ${addToDay(sql`d`)}`);
};

/** Sums arrays of hours, by index. */
const sumArrays = (column: SQL): SQL => {
  const sums = Array.from(
    { length: 24 },
    (_, hour) => sql`sum(${column}[${sql.raw(String(hour + 1))}])::bigint`,
  );
  return sql`array[${sql.join(sums, sql`, `)}]`;
};

/** Deletes hours that are older than two weeks, and days that are older than 400. */
export const deleteOldVolume = async (db: Executor, now: number) => {
  const today = Math.floor(now / dayMs);
  for (const table of [sql`volume_day`, sql`volume_total`]) {
    await db.execute(sql`update ${table} set hour_envelopes = null, hour_bytes = null
      where hour_bytes is not null and day < ${today - hoursDays}::int`);
    await db.execute(sql`delete from ${table} where day < ${today - daysMax}::int`);
  }
  await db.execute(sql`delete from volume_source where day < ${today - daysMax}::int`);
};

/**
 * Updates what hosts sent in the last 24 whole hours and, if `withUsual`, on a usual day. Returns false, and updates nothing, while another
 * core folds or refreshes.
 */
export const refreshHostVolumes = (
  db: Database,
  now: number,
  { withUsual }: { withUsual: boolean },
): Promise<boolean> =>
  withVolumeLock(db, async (tx) => {
    const until = now - (now % hourMs);
    const sent = sql`select host_id, sum(payload_bytes)::bigint as bytes from ingest_hour
      where hour >= ${timestamptz(until - dayMs)} and hour < ${timestamptz(until)} group by host_id`;
    await tx.execute(sql`
      with sent as materialized (${sent}),
      silent as (update host_volume v set day_bytes = 0 where day_bytes <> 0 and not exists (select from sent where sent.host_id = v.host_id))
      insert into host_volume as v (host_id, day_bytes) select host_id, bytes from sent
      on conflict (host_id) do update set day_bytes = excluded.day_bytes where v.day_bytes <> excluded.day_bytes`);
    if (!withUsual) return;
    const today = Math.floor(now / dayMs);
    await tx.execute(sql`
      update host_volume v set usual_bytes = usual.bytes from (
        select host_id, (percentile_cont(0.5) within group (order by bytes))::bigint as bytes from (
          select host_id, day, sum(payload_bytes) as bytes from volume_day where day >= ${today - hoursDays}::int group by 1, 2) days
        group by host_id having count(*) >= 3) usual
      where usual.host_id = v.host_id and v.usual_bytes is distinct from usual.bytes`);
  });
