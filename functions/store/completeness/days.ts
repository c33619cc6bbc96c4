/** Stores the states of hosts' hours, a row for each host and day, and the number of hosts in each state for each hour. */
import { sql } from "drizzle-orm";
import { dayMs } from "#kit/clock.ts";
import { byteOfState, pendingStates } from "#proto/completeness/hour-note.ts";
import type { Executor } from "../database/database.ts";
import { arrayLiteral } from "../database/statements.ts";
import { timestampAt } from "../fleet/rows.ts";
import type { HostHour } from "./hour-facts.ts";

/** A host's hours of a day. */
export interface DayRow {
  host: string;
  /** Days since 1970. */
  day: number;
  /** 24 bytes, as `byteOfState`. */
  states: Uint8Array;
  /** As `packNotes`. */
  details: string | null;
  incompleteHours: number;
  /** The hours as bits. */
  undelivered: number;
  /** The highest transaction id of the accounts of these hours. */
  xid: bigint | null;
}

type StoredDay = {
  host_id: string;
  day: number;
  states: Uint8Array;
  details: string | null;
  incomplete_hours: number;
  undelivered: number;
  xid: string | null;
};

const columns = sql`d.host_id, d.day, d.states, d.details, d.incomplete_hours, d.undelivered, d.xid::text`;

const dayOf = (row: StoredDay): DayRow => ({
  host: row.host_id,
  day: row.day,
  states: row.states,
  details: row.details,
  incompleteHours: row.incomplete_hours,
  undelivered: row.undelivered,
  xid: row.xid === null ? null : BigInt(row.xid),
});

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
): Promise<DayRow[]> => {
  const rows = await db.execute<StoredDay>(sql`
    select ${columns} from unnest(${arrayLiteral(hosts)}::text[]) as w (host) cross join lateral (
      select * from completeness_day where host_id = w.host and day between ${from}::int and ${to}::int offset 0) d
    order by host_id, day`);
  return rows.map(dayOf);
};

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
      openBytes.includes(byte) ? [{ host, hourMs: day * dayMs + hour * 3_600_000 }] : [],
    ),
  );
};

/** Finds undelivered hours in rows whose accounts every export has now delivered. */
export const findDeliveredHours = async (
  db: Executor,
  below: bigint,
  rowsMax: number,
): Promise<HostHour[]> => {
  const rows = await db.execute<{ host_id: string; day: number; undelivered: number }>(sql`
    select host_id, day, undelivered from completeness_day
    where undelivered <> 0 and xid < ${String(below)}::bigint order by day limit ${rowsMax}`);
  return rows.flatMap(({ host_id: host, day, undelivered }) =>
    Array.from({ length: 24 }, (_, hour) => hour)
      .filter((hour) => (undelivered >> hour) & 1)
      .map((hour) => ({ host, hourMs: day * dayMs + hour * 3_600_000 })),
  );
};

/** Inserts rows, or replaces those of the same host and day. */
export const saveDays = async (tx: Executor, rows: readonly DayRow[]): Promise<void> => {
  const numbers = (read: (row: DayRow) => number | bigint | null) =>
    `{${rows.map((row) => read(row) ?? "null").join(",")}}`;
  // Empty for none: notes are never empty.
  const details = arrayLiteral(rows.map((row) => row.details ?? ""));
  await tx.execute(sql`
    insert into completeness_day (host_id, day, states, details, incomplete_hours, undelivered, xid)
    select host, day, states, nullif(details, ''), incomplete, undelivered, xid from unnest(
      ${arrayLiteral(rows.map(({ host }) => host))}::text[], ${numbers(({ day }) => day)}::int[],
      ${arrayLiteral(rows.map(({ states }) => states))}::bytea[], ${details}::text[],
      ${numbers(({ incompleteHours }) => incompleteHours)}::smallint[], ${numbers(({ undelivered }) => undelivered)}::int[],
      ${numbers(({ xid }) => xid)}::bigint[]) as r (host, day, states, details, incomplete, undelivered, xid)
    order by host, day
    on conflict (host_id, day) do update set states = excluded.states, details = excluded.details,
      incomplete_hours = excluded.incomplete_hours, undelivered = excluded.undelivered, xid = excluded.xid`);
};

/** Adds to the hosts of each state, by the start of the hour. Also adds 0, so that the row shows that states of its hour changed. */
export const addHourCounts = async (
  tx: Executor,
  changes: ReadonlyMap<number, readonly number[]>,
): Promise<void> => {
  for (const [hourMs, counts] of [...changes].sort(([a], [b]) => a - b)) {
    const sums = counts.map(
      (count, index) => sql`completeness_hour.hosts[${sql.raw(String(index + 1))}] + ${count}::int`,
    );
    await tx.execute(sql`
      insert into completeness_hour (hour, hosts) values (${timestampAt(new Date(hourMs))}, ${`{${counts.join(",")}}`}::int[])
      on conflict (hour) do update set hosts = array[${sql.join(sums, sql`, `)}]`);
  }
};

/** How far the states of hours are settled. */
export interface SettlingProgress {
  /** The start of the last settled hour; null for none. */
  hourMs: number | null;
  receivedBefore: Date | null;
  /** The position up to which deliveries from a stream have settled hours; nulls for none. */
  deliveredStream: string | null;
  deliveredThrough: bigint | null;
}

const leaseSeconds = 60;

/** Takes the right to settle hours, or extends it; null while another core has it. */
export const claimSettling = async (
  db: Executor,
  owner: string,
): Promise<SettlingProgress | null> => {
  await db.execute(
    sql`insert into completeness_progress (singleton) values (true) on conflict do nothing`,
  );
  const [row] = await db.execute<
    Record<"hour" | "received_before" | "delivered_stream" | "delivered_through", string | null>
  >(sql`
    update completeness_progress set owner = ${owner}::uuid, lease_until = clock_timestamp() + interval '1 second' * ${leaseSeconds}::int
    where owner is null or owner = ${owner}::uuid or lease_until < clock_timestamp()
    returning hour, received_before, delivered_stream, delivered_through::text`);
  if (row === undefined) return null;
  return {
    hourMs: row.hour === null ? null : Date.parse(row.hour),
    receivedBefore: row.received_before === null ? null : new Date(row.received_before),
    deliveredStream: row.delivered_stream,
    deliveredThrough: row.delivered_through === null ? null : BigInt(row.delivered_through),
  };
};

/** Stores how far hours are settled, and releases the right to settle them. */
export const releaseSettling = async (
  db: Executor,
  owner: string,
  { hourMs, receivedBefore, deliveredStream, deliveredThrough }: SettlingProgress,
): Promise<void> => {
  const hour = hourMs === null ? sql`null` : timestampAt(new Date(hourMs));
  const before = receivedBefore === null ? sql`null` : timestampAt(receivedBefore);
  await db.execute(sql`
    update completeness_progress set owner = null, hour = ${hour}, received_before = ${before},
      delivered_stream = ${deliveredStream}, delivered_through = ${deliveredThrough === null ? null : String(deliveredThrough)}::bigint where owner = ${owner}::uuid`);
};

/** Deletes what is older than `keptFrom`. */
export const deleteOldDays = async (db: Executor, keptFrom: Date): Promise<void> => {
  await db.execute(sql`delete from completeness_day where day < ${dayAt(keptFrom.getTime())}::int`);
  await db.execute(sql`delete from completeness_hour where hour < ${timestampAt(keptFrom)}`);
};
