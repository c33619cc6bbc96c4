import {
  and,
  asc,
  count,
  desc,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNotNull,
  isNull,
  lt,
  or,
  sql,
} from "drizzle-orm";
import { watch, watchEvent, watchMessage } from "#drizzle/schema/watch.ts";
import type { WatchState } from "#proto/watch/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  asDate,
  deleterOf,
  firstRow,
  hasRows,
  lockerOf,
  orNull,
  type Paged,
  type PageRequest,
  type RowOf,
  readRows,
  readScalar,
  readScalars,
  selectPage,
  texts,
  timestamptz,
  updaterOf,
} from "../database/statements.ts";
import { tryLock } from "../database/try-lock.ts";
import { toleranceSeconds } from "../fleet/times-ahead.ts";

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
  return tx.$count(watch);
};

/** Finds a watch and locks its row until the transaction ends. */
export const lockWatch = lockerOf(watch);

/** Reports whether a watch other than `id` has a name. */
export const isWatchNamed = async (tx: Executor, name: string, id: string): Promise<boolean> => {
  const rows = await tx.select({ id: watch.id }).from(watch).where(eq(watch.name, name));
  return rows.some((row) => row.id !== id);
};

/** Changes a watch. */
export const updateWatch = updaterOf(watch);

/** Deletes a watch and its history; its messages stay. */
export const deleteWatch = deleterOf(watch);

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

/** Finds the watches that fire, and those that could not be evaluated, in the order in which they changed. */
export const findFiringWatches = (db: Executor): Promise<WatchRow[]> =>
  db
    .select()
    .from(watch)
    .where(or(watch.isFiring, isNotNull(watch.fault)))
    .orderBy(asc(watch.changedAt), asc(watch.id));

const waitingMessages = sql<number>`(select count(*)::int from ${watchMessage}
  where ${watchMessage.watchId} = ${sql.raw('"watch"."id"')} and ${watchMessage.deliveredAt} is null)`;
const described = { ...getTableColumns(watch), waitingMessages };

/** Selects watches by their states. */
export interface WatchFilter {
  states?: readonly WatchState[];
}

const stateOf = sql<WatchState>`case when ${watch.isFiring} then 'firing'
  when ${watch.contrarySince} is not null then 'pending' else 'inactive' end`;

/** What needs somebody first: a watch that fires, then one that cannot be evaluated, then a pending one. */
const severityRank = sql`case when ${watch.isFiring} then 0 when ${watch.fault} is not null then 1
  when ${watch.contrarySince} is not null then 2 else 3 end`;

/** Returns one page of the watches, newest first. */
export const listWatches = (
  db: Executor,
  { states }: WatchFilter,
  page: PageRequest,
): Promise<Paged<DescribedWatch>> =>
  selectPage(
    db.select(described).from(watch),
    watch.id,
    page,
    [states && inArray(stateOf, [...states])],
    severityRank,
  );

/** Finds a watch. */
export const findWatch = (db: Executor, id: string): Promise<DescribedWatch | undefined> =>
  firstRow(db.select(described).from(watch).where(eq(watch.id, id)));

/** Counts the watches by their states; a state without one is absent. */
export const countWatches = async (db: Executor): Promise<ReadonlyMap<WatchState, number>> => {
  const rows = await db.select({ state: stateOf, watches: count() }).from(watch).groupBy(stateOf);
  return new Map(rows.map(({ state, watches }) => [state, watches]));
};

/** Returns when the watch that waits longest was evaluated; null without one. */
export const findOldestEvaluation = (db: Executor): Promise<Date | null> =>
  readScalar(
    db,
    orNull(asDate),
    sql`select min(coalesce(evaluated_at, created_at)) as at from watch`,
  );

/** An event to record; ignored if its watch does not exist. */
type NewWatchEvent = Pick<WatchEventRow, "watchId" | "at" | "kind"> &
  Partial<Pick<WatchEventRow, "count" | "receiver" | "detail">>;

/** Adds an event to the history of a watch, if it still exists. */
export const addWatchEvent = async (tx: Executor, event: NewWatchEvent) => {
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
export const deleteWatchEvents = async (db: Executor, before: Date) => {
  await db.delete(watchEvent).where(lt(watchEvent.at, before));
};

/* Messages of watches that receivers have not accepted yet. Those of a watch to a receiver are claimed one at a time, in order. */

/** A message's row. */
export type MessageRow = typeof watchMessage.$inferSelect;

/** A message to send. */
type NewMessage = Pick<MessageRow, "id" | "watchId" | "receiver" | "body" | "createdAt">;

/** Adds messages. Lock their watch first, so that they have its order. */
export const insertMessages = async (tx: Executor, messages: readonly NewMessage[]) => {
  if (messages.length === 0) return;
  await tx.insert(watchMessage).values(
    messages.map((message) => ({
      ...message,
      attempts: 0,
      failures: 0,
      nextAttemptAt: message.createdAt,
    })),
  );
};

/**
 * Claims up to `limit` messages whose next attempt is due, until `until`. For each watch and receiver it claims the first that waits, or
 * else the one that is repeated, unless its watch is silenced; never two at once. Those of a failing receiver come last. Returns none
 * while another core claims some.
 */
export const claimMessages = async (
  tx: Executor,
  {
    now,
    until,
    receivers,
    limit,
  }: { now: Date; until: Date; receivers: readonly string[]; limit: number },
): Promise<MessageRow[]> => {
  if (!(await tryLock(tx, "watchMessages"))) return [];
  const at = sql`${timestamptz(now)}`;
  const ids = await readScalars(
    tx,
    String,
    sql`
    update watch_message set leased_until = ${timestamptz(until)}, attempts = attempts + 1
    where id in (
      select first.id from (
        select distinct on (watch_id, receiver) *, max(leased_until) over (partition by watch_id, receiver) as busy_until
        from watch_message order by watch_id, receiver, delivered_at is not null, position
      ) first left join watch w on w.id = first.watch_id
      where first.receiver = any(${texts(receivers)}) and first.next_attempt_at <= ${at}
        and (busy_until is null or busy_until <= ${at})
        and (first.delivered_at is null or w.silenced_until is null or w.silenced_until <= ${at})
      order by first.failures > 0, first.next_attempt_at limit ${limit}
    ) returning id`,
  );
  if (ids.length === 0) return [];
  return tx.select().from(watchMessage).where(anyOf(watchMessage.id, ids));
};

/** The claim of a message, which its number of attempts distinguishes from later claims. */
type MessageClaim = Pick<MessageRow, "id" | "attempts">;

const claimed = ({ id, attempts }: MessageClaim) =>
  and(eq(watchMessage.id, id), eq(watchMessage.attempts, attempts));

/** Deletes a message that its receiver has accepted, or that core drops. */
export const deleteMessage = (db: Executor, claim: MessageClaim): Promise<boolean> =>
  hasRows(db.delete(watchMessage).where(claimed(claim)).returning({ id: watchMessage.id }));

/** Deletes the repeated message of a watch to a receiver. */
export const deleteRepeated = async (
  db: Executor,
  { watchId, receiver }: Pick<MessageRow, "watchId" | "receiver">,
) => {
  await db
    .delete(watchMessage)
    .where(
      and(
        eq(watchMessage.watchId, watchId),
        eq(watchMessage.receiver, receiver),
        isNotNull(watchMessage.deliveredAt),
      ),
    );
};

/** Releases a claimed message until its next attempt. */
export const releaseMessage = async (
  db: Executor,
  claim: MessageClaim,
  change: Pick<MessageRow, "nextAttemptAt" | "failures" | "lastError"> &
    Partial<Pick<MessageRow, "deliveredAt">>,
) => {
  await db
    .update(watchMessage)
    .set({ leasedUntil: null, ...change })
    .where(claimed(claim));
};

/**
 * Deletes the undelivered messages that were created before a time, and returns them. Deletes a message that a watch fires only once the
 * watch has ended. When it deletes the message of the end, the firing is repeated no more.
 */
export const deleteOldMessages = async (tx: Executor, before: Date): Promise<MessageRow[]> => {
  const hasEnded = sql`exists (select from watch_message later where later.watch_id = ${watchMessage.watchId} and later.receiver = ${watchMessage.receiver}
    and later.position > ${watchMessage.position} and later.body::json ->> 'type' = 'watch.resolved')`;
  const isOver = sql`(${watchMessage.body}::json ->> 'type' <> 'watch.firing' or ${hasEnded})`;
  const rows = await tx
    .delete(watchMessage)
    .where(and(lt(watchMessage.createdAt, before), isNull(watchMessage.deliveredAt), isOver))
    .returning();
  for (const row of rows) if (row.body.type === "watch.resolved") await deleteRepeated(tx, row);
  return rows;
};

/** The messages that a receiver has not accepted yet. */
type WaitingMessages = RowOf<typeof messagesOfReceiver>;
const messagesOfReceiver = { receiver: String, messages: Number, oldestAt: asDate };

/** Counts the messages that no receiver has accepted, by receiver. */
export const findWaitingMessages = (db: Executor): Promise<WaitingMessages[]> =>
  readRows(
    db,
    messagesOfReceiver,
    sql`
    select receiver, count(*) as messages, min(created_at) as oldest_at from watch_message
    where delivered_at is null group by 1 order by 1`,
  );

/** The longest wait that a receiver can ask for. */
const waitSecondsMax = 3600;

/** Makes messages due whose next attempt was set by a clock that was ahead. */
export const correctMessages = async (db: Executor, now: Date) => {
  const at = timestamptz(now);
  const limit = timestamptz(now, toleranceSeconds);
  await db.execute(sql`
    update watch_message set created_at = least(created_at, ${at}), next_attempt_at = least(next_attempt_at, ${at}), leased_until = null
    where greatest(created_at, delivered_at) > ${limit} or greatest(next_attempt_at, leased_until) > ${timestamptz(now, waitSecondsMax + toleranceSeconds)}`);
};

/** Shortens silences that began ahead of `now`, so that each lasts as long from `now` as an operator asked for. */
export const correctSilences = async (db: Executor, now: Date) => {
  const at = timestamptz(now);
  const limit = timestamptz(now, toleranceSeconds);
  await db.execute(sql`
    with ahead as (select watch_id, max(at) as at from watch_event where kind = 'silenced' and at > ${limit} group by 1),
      moved as (update watch_event set at = ${at} where at > ${limit})
    update watch set silenced_until = silenced_until - (ahead.at - ${at}) from ahead where id = watch_id and silenced_until > ahead.at`);
};
