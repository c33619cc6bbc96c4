/** Stores the states of hosts' hours, a row for each host and day, and the number of hosts in each state for each hour. */
import { sql } from "drizzle-orm";
import { dayMs, hourMs } from "#kit/clock.ts";
import { byteOfState, incompleteStates, pendingStates } from "#proto/completeness/hour-state.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  asDate,
  asIs,
  orNull,
  type RowOf,
  readOne,
  readRow,
  readRows,
  texts,
  timestamptz,
} from "../database/statements.ts";
import type { HostHour } from "./hour-facts.ts";

/** A host's hours of a day. */
export type DayRow = RowOf<typeof dayColumns>;
const dayColumns = {
  host: String,
  /** Days since 1970. */
  day: Number,
  /** 24 bytes, as `byteOfState`. */
  states: asIs<Uint8Array>,
  /** As `packNotes`. */
  details: orNull(String),
  incompleteHours: Number,
  /** The hours as bits. */
  undelivered: Number,
  /** The highest transaction id of the accounts of these hours. */
  xid: orNull(BigInt),
};

/** Returns the day of a time, in days since 1970. */
export const dayAt = (ms: number): number => Math.floor(ms / dayMs);

/**
 * Finds the rows of hosts from day `from` through day `to`, in days since 1970. Looks up each host: while a new day grows, PostgreSQL
 * expects few rows of it and would read them all for each page of hosts.
 */
export const findDays = async (
  db: Executor,
  hosts: readonly string[],
  { from, to }: { from: number; to: number },
): Promise<DayRow[]> =>
  readRows(
    db,
    dayColumns,
    sql`
    select w.host, d.* from unnest(${texts(hosts)}) as w (host) cross join lateral (
      select * from completeness_day where host_id = w.host and day between ${from}::int and ${to}::int offset 0) d
    order by host_id, day`,
  );

const openBytes = pendingStates.map(byteOfState);

/** Finds the hours of hosts on two days that are still open: an account that arrived since, or did not, may have settled them. */
export const findOpenHours = async (
  db: Executor,
  hosts: readonly string[],
  range: { from: number; to: number },
): Promise<HostHour[]> => {
  const found = await findDays(db, hosts, range);
  return found.flatMap(({ host, day, states }) =>
    [...states].flatMap((byte, hour) =>
      openBytes.includes(byte) ? [{ host, hourStartMs: day * dayMs + hour * hourMs }] : [],
    ),
  );
};

/** Finds undelivered hours in rows whose accounts every export has now delivered. */
export const findDeliveredHours = async (
  db: Executor,
  below: bigint,
  rowsMax: number,
): Promise<HostHour[]> => {
  const rows = await readRows(
    db,
    { host: String, day: Number, undelivered: Number },
    sql`
    select host_id as host, day, undelivered from completeness_day
    where undelivered <> 0 and xid < ${below}::bigint order by day limit ${rowsMax}`,
  );
  return rows.flatMap(({ host, day, undelivered }) =>
    Array.from({ length: 24 }, (_, hour) => hour)
      .filter((hour) => (undelivered >> hour) & 1)
      .map((hour) => ({ host, hourStartMs: day * dayMs + hour * hourMs })),
  );
};

/** Inserts rows, or replaces those of the same host and day. */
export const saveDays = async (tx: Executor, rows: readonly DayRow[]) => {
  const numbers = (read: (row: DayRow) => number | bigint | null) =>
    `{${rows.map((row) => read(row) ?? "null").join(",")}}`;
  // Empty for none: notes are never empty.
  const details = arrayLiteral(rows.map((row) => row.details ?? ""));
  await tx.execute(sql`
    insert into completeness_day (host_id, day, states, details, incomplete_hours, undelivered, xid)
    select host, day, states, nullif(details, ''), incomplete, undelivered, xid from unnest(
      ${texts(rows.map(({ host }) => host))}, ${numbers(({ day }) => day)}::int[],
      ${arrayLiteral(rows.map(({ states }) => states))}::bytea[], ${details}::text[],
      ${numbers(({ incompleteHours }) => incompleteHours)}::smallint[], ${numbers(({ undelivered }) => undelivered)}::int[],
      ${numbers(({ xid }) => xid)}::bigint[]) as r (host, day, states, details, incomplete, undelivered, xid)
    order by host, day
    on conflict (host_id, day) do update set states = excluded.states, details = excluded.details,
      incomplete_hours = excluded.incomplete_hours, undelivered = excluded.undelivered, xid = excluded.xid`);
};

/** Incomplete hours with fewer complete ones between them are of one trouble. */
export const troubleGapHours = 6;

const incompleteHosts = sql.raw(
  incompleteStates.map((state) => `hosts[${byteOfState(state)}]`).join(" + "),
);

/**
 * Adds to the hosts of each state, by the start of the hour. Also adds 0, so that the row shows that states of its hour changed. An hour that
 * becomes incomplete joins the trouble of the hours before it, and stays in that while they become complete.
 */
export const addHourCounts = async (
  tx: Executor,
  changes: ReadonlyMap<number, readonly number[]>,
) => {
  for (const [hourStartMs, counts] of [...changes].sort(([a], [b]) => a - b)) {
    const sums = counts.map(
      (count, index) => sql`completeness_hour.hosts[${sql.raw(String(index + 1))}] + ${count}::int`,
    );
    await tx.execute(sql`
      insert into completeness_hour (hour, hosts) values (${timestamptz(hourStartMs)}, ${`{${counts.join(",")}}`}::int[])
      on conflict (hour) do update set hosts = array[${sql.join(sums, sql`, `)}]`);
    await tx.execute(sql`
      update completeness_hour own set incomplete_from = case when ${incompleteHosts} > 0 then coalesce(incomplete_from,
        (select incomplete_from from completeness_hour where incomplete_from is not null and hour < own.hour
          and hour >= own.hour - interval '1 hour' * ${troubleGapHours}::int order by hour desc limit 1), hour) end
      where hour = ${timestamptz(hourStartMs)}`);
  }
};

/** How far the states of hours are settled. */
export type SettlingProgress = RowOf<typeof progressColumns>;
const progressColumns = {
  /** The start of the last settled hour; null for none. */
  hourStartMs: orNull(Date.parse),
  receivedBefore: orNull(asDate),
};

/** Finds the start of the last settled hour, and when the first host enrolled; null for none. */
export const findSettling = (
  db: Executor,
): Promise<{ hourStartMs: number | null; enrolledMs: number | null }> =>
  readOne(
    db,
    { hourStartMs: orNull(Date.parse), enrolledMs: orNull(Date.parse) },
    sql`
    select (select hour from completeness_progress) as hour_start_ms, (select min(enrolled_at) from collector_identity) as enrolled_ms`,
  );

const leaseSeconds = 60;

/** Takes the right to settle hours, or extends it; null while another core has it. */
export const claimSettling = async (
  db: Executor,
  owner: string,
): Promise<SettlingProgress | null> => {
  await db.execute(
    sql`insert into completeness_progress (singleton) values (true) on conflict do nothing`,
  );
  const progress = await readRow(
    db,
    progressColumns,
    sql`
    update completeness_progress set owner = ${owner}::uuid, lease_until = clock_timestamp() + interval '1 second' * ${leaseSeconds}::int
    where owner is null or owner = ${owner}::uuid or lease_until < clock_timestamp()
    returning hour as hour_start_ms, received_before`,
  );
  return progress ?? null;
};

/** Stores how far hours are settled, and releases the right to settle them. */
export const releaseSettling = async (
  db: Executor,
  owner: string,
  { hourStartMs, receivedBefore }: SettlingProgress,
) => {
  const hour = hourStartMs === null ? sql`null` : timestamptz(hourStartMs);
  const before = receivedBefore === null ? sql`null` : timestamptz(receivedBefore);
  await db.execute(sql`
    update completeness_progress set owner = null, hour = ${hour}, received_before = ${before} where owner = ${owner}::uuid`);
};

/** Deletes what is older than `keptFrom`. */
export const deleteOldDays = async (db: Executor, keptFrom: Date) => {
  await db.execute(sql`delete from completeness_day where day < ${dayAt(keptFrom.getTime())}::int`);
  await db.execute(sql`delete from completeness_hour where hour < ${timestamptz(keptFrom)}`);
};
