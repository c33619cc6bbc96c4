/** Stores when cores could receive, by the database's clock, and when none could. */
import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { asDate, orNull, readRows, readScalar, timestamptz } from "../database/statements.ts";
import type { Outage } from "./counted-time.ts";

/** Cores extend their sessions this often; a gap of three intervals is an outage. */
export const sessionIntervalMs = 5_000;
const gapMsMin = 3 * sessionIntervalMs;
/** Older sessions are deleted, or no longer explain why hosts are silent. */
const sessionDaysMax = 7;
/** As long as history may be kept. */
const outageDaysMax = 400;
/** The newest outages decide on states. */
const outagesMax = 20;

/** Reports whether a core that last extended its session `elapsedMs` ago could receive since. */
export const isUnbroken = (elapsedMs: number): boolean => elapsedMs <= gapMsMin;

/** The time in which a core states that it could receive. */
interface ReceivedTime {
  sessionId: string;
  from: Date;
  until: Date;
  /** The outage that it ends, if any. */
  outageId: string;
}

/**
 * Extends a session to `until`; inserts it if there is none. If no core could receive for a while before `from`, records an outage and
 * returns it. Corrects times that are ahead, because the database's clock was. `hasOlderCore`: a core of a previous version, which may not
 * read `fleet_status` or digests of stored bytes, can receive too.
 */
export const extendSession = async (
  tx: Executor,
  { sessionId, from, until, outageId }: ReceivedTime,
): Promise<{ outage: { beganAt: Date; endedAt: Date } | undefined; hasOlderCore: boolean }> => {
  // One core at a time, so that cores that return together record one outage.
  await tx.execute(sql`select pg_advisory_xact_lock(hashtext('core_session'))`);
  const at = timestamptz(until);
  await tx.execute(
    sql`update core_session set received_until = ${at} where received_until > ${at}`,
  );
  await tx.execute(
    sql`delete from core_outage where ended_at > ${at} or ended_at < ${at} - interval '1 day' * ${outageDaysMax}::int`,
  );
  const beganAt = await findGap(tx, from);
  if (beganAt !== undefined)
    await tx.execute(sql`insert into core_outage (id, began_at, ended_at)
      values (${outageId}::uuid, ${timestamptz(beganAt)}, ${timestamptz(from)})`);
  await tx.execute(sql`insert into core_session (id, started_at, received_until, reads_status, reads_stored_digests)
    values (${sessionId}::uuid, ${timestamptz(from)}, ${at}, true, true)
    on conflict (id) do update set received_until = excluded.received_until`);
  await tx.execute(
    sql`delete from core_session where received_until < ${at} - interval '1 day' * ${sessionDaysMax}::int`,
  );
  const hasOlderCore = await readScalar(
    tx,
    Boolean,
    sql`select exists(select from core_session
    where reads_stored_digests is not true and received_until > ${timestamptz(until, -gapMsMin / 1000)})`,
  );
  return { outage: beganAt && { beganAt, endedAt: from }, hasOlderCore };
};

/** Returns since when no core could receive before `at`; undefined if one could. */
const findGap = async (db: Executor, at: Date): Promise<Date | undefined> => {
  const extended = await readScalar(
    db,
    orNull(asDate),
    sql`select max(received_until) from core_session where received_until > ${timestamptz(at)} - interval '1 day' * ${sessionDaysMax}::int`,
  );
  if (extended === null || !isGap(extended, at)) return undefined;
  // A core of a previous version extends no session, but stores heartbeats. Those that have just arrived do not end the outage earlier.
  const heard = await readScalar(
    db,
    orNull(asDate),
    sql`select max(last_heartbeat_at) from fleet_status where last_heartbeat_at < ${timestamptz(at, -gapMsMin / 1000)}`,
  );
  const beganAt = new Date(Math.max(extended.getTime(), heard?.getTime() ?? 0));
  return isGap(beganAt, at) ? beganAt : undefined;
};

const isGap = (from: Date, until: Date) => until.getTime() - from.getTime() > gapMsMin;

/** Finds the newest outages of a condition, oldest first. A session that continues through one shows that only the clock skipped it. */
const readOutages = async (db: Executor, where: SQL) => {
  const outages = await readRows(
    db,
    { beganAt: asDate, endedAt: asDate, isClockSkip: Boolean },
    sql`
      select began_at, ended_at, exists(
        select from core_session where started_at <= began_at and received_until >= ended_at) as is_clock_skip
      from core_outage where ${where} order by ended_at desc limit ${outagesMax}`,
  );
  return outages.toReversed();
};

/** Finds the outages that had begun at a past time, oldest first: the last one has no end if it lasted then. */
export const findOutagesAt = async (
  db: Executor,
  at: Date,
): Promise<Omit<Outage, "countedFrom">[]> => {
  const outages = await readOutages(db, sql`began_at <= ${timestamptz(at)}`);
  return outages.map(({ beganAt, endedAt }) => ({
    beganAt,
    endedAt: endedAt > at ? null : endedAt,
  }));
};

/**
 * Finds the newest outages until `now`, oldest first. The last one has no end while no core has extended a session: when this core has just
 * resumed, it ends with the next extension.
 */
export const findOutages = async (
  db: Executor,
  now: Date,
): Promise<Omit<Outage, "countedFrom">[]> => {
  const ended = await readOutages(db, sql`ended_at <= ${timestamptz(now)}`);
  const current = await findGap(db, now);
  return [...ended, ...(current ? [{ beganAt: current, endedAt: null }] : [])];
};
