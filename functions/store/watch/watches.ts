import { asc, count, desc, eq, gt, inArray, isNull, lt, or, sql } from "drizzle-orm";
import { watch, watchEvent, watchMessage } from "#drizzle/schema/watch.ts";
import type { WatchState } from "#proto/watch/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import {
  hasRows,
  lockerOf,
  type Paged,
  type PageRequest,
  paged,
  pageOf,
  updaterOf,
} from "../database/statements.ts";

/** A watch's row. */
export type WatchRow = typeof watch.$inferSelect;

/** An event of a watch. */
export type WatchEventRow = typeof watchEvent.$inferSelect;

/** A watch, and the number of its waiting messages. */
export interface DescribedWatch extends WatchRow {
  waitingMessages: number;
}

/** Inserts a watch. Returns false if its name is taken. */
export const insertWatch = (tx: Executor, row: WatchRow): Promise<boolean> =>
  hasRows(tx.insert(watch).values(row).onConflictDoNothing({ target: watch.name }).returning());

/** Counts the watches, and locks their number until the transaction ends. */
export const lockWatchCount = async (tx: Executor): Promise<number> => {
  await tx.execute(sql`select pg_advisory_xact_lock(hashtext('watch'))`);
  const [row] = await tx.select({ watches: count() }).from(watch);
  return row?.watches ?? 0;
};

/** Finds a watch and locks its row until the transaction ends. */
export const lockWatch = lockerOf(watch);

/** Whether a watch other than `id` has a name. */
export const isWatchNamed = async (tx: Executor, name: string, id: string): Promise<boolean> => {
  const rows = await tx.select({ id: watch.id }).from(watch).where(eq(watch.name, name));
  return rows.some((row) => row.id !== id);
};

/** Changes a watch. */
export const updateWatch = updaterOf(watch);

/** Deletes a watch and its history; its messages stay. */
export const deleteWatch = async (tx: Executor, id: string): Promise<void> => {
  await tx.delete(watch).where(eq(watch.id, id));
};

/** Finds the watches that were last evaluated before a time, or after `now`, when a clock went back. */
export const findDueWatches = (
  db: Executor,
  { before, now }: { before: Date; now: Date },
): Promise<WatchRow[]> =>
  db
    .select()
    .from(watch)
    .where(or(isNull(watch.evaluatedAt), lt(watch.evaluatedAt, before), gt(watch.evaluatedAt, now)))
    .orderBy(asc(watch.id));

/** Finds the other watches whose messages report that they fire, in the order in which they began. */
export const findAnnouncedWatches = async (db: Executor, exceptId: string): Promise<WatchRow[]> => {
  const rows = await db
    .select()
    .from(watch)
    .where(sql`${watch.announcedCount} is not null`)
    .orderBy(asc(watch.changedAt), asc(watch.id));
  return rows.filter(({ id }) => id !== exceptId);
};

const waiting = sql<number>`(select count(*)::int from ${watchMessage}
  where ${watchMessage.watchId} = ${sql.raw('"watch"."id"')} and ${watchMessage.deliveredAt} is null)`;

/** Selects watches by their states. */
export interface WatchFilter {
  states?: readonly WatchState[];
}

const stateOf = sql<WatchState>`case when ${watch.isFiring} then 'firing'
  when ${watch.contrarySince} is not null then 'pending' else 'inactive' end`;

/** Returns one page of the watches, newest first. */
export const listWatches = async (
  db: Executor,
  { states }: WatchFilter,
  page: PageRequest,
): Promise<Paged<DescribedWatch>> => {
  const { where, orderBy, limit } = pageOf(watch.id, page, [
    states && inArray(stateOf, [...states]),
  ]);
  const rows = await db
    .select({ watch, waiting })
    .from(watch)
    .where(where)
    .orderBy(orderBy)
    .limit(limit);
  return paged(
    rows.map((row) => ({ ...row.watch, waitingMessages: row.waiting })),
    page,
  );
};

/** Finds a watch. */
export const findWatch = async (db: Executor, id: string): Promise<DescribedWatch | undefined> => {
  const [row] = await db.select({ watch, waiting }).from(watch).where(eq(watch.id, id));
  return row && { ...row.watch, waitingMessages: row.waiting };
};

/** Counts the watches by their states; a state without one is absent. */
export const countWatches = async (db: Executor): Promise<ReadonlyMap<WatchState, number>> => {
  const rows = await db.select({ state: stateOf, watches: count() }).from(watch).groupBy(stateOf);
  return new Map(rows.map(({ state, watches }) => [state, watches]));
};

/** Returns when the watch that waits longest was evaluated; null without one. */
export const findOldestEvaluation = async (db: Executor): Promise<Date | null> => {
  const [row] = await db.execute<{ at: string | null }>(
    sql`select min(coalesce(evaluated_at, created_at)) as at from watch`,
  );
  return row?.at ? new Date(row.at) : null;
};

/** An event to record; ignored if its watch does not exist. */
type NewWatchEvent = Pick<WatchEventRow, "watchId" | "at" | "kind"> &
  Partial<Pick<WatchEventRow, "count" | "receiver" | "detail">>;

/** Adds an event to the history of a watch, if it still exists. */
export const addWatchEvent = async (tx: Executor, event: NewWatchEvent): Promise<void> => {
  const [owner] = await tx
    .select({ id: watch.id })
    .from(watch)
    .where(eq(watch.id, event.watchId))
    .for("key share");
  if (owner !== undefined) await tx.insert(watchEvent).values(event);
};

/** Returns the newest events of a watch, the newest first. */
export const findWatchEvents = (
  db: Executor,
  watchId: string,
  limit: number,
): Promise<WatchEventRow[]> =>
  db
    .select()
    .from(watchEvent)
    .where(eq(watchEvent.watchId, watchId))
    .orderBy(desc(watchEvent.position))
    .limit(limit);

/** Deletes the events before a time. */
export const deleteWatchEvents = async (db: Executor, before: Date): Promise<void> => {
  await db.delete(watchEvent).where(lt(watchEvent.at, before));
};
