/**
 * The queues of hosts that core knows of (`ingest_queue`). Invariants:
 * - A queue that is opened or accounted for is open, even if core had closed it. A queue that its own account ended keeps that ending,
 *   and core refuses its accounts.
 * - A queue of which a copy has sent is not closed by the copy: it may continue in its stream, and ends once core has not seen it for
 *   hours.
 * - A host has a bounded number of open queues; the others are one queue without an id.
 */

import { and, desc, eq, sql } from "drizzle-orm";
import { ingestCursor, ingestQueue } from "#drizzle/schema/ingest.ts";
import { hourMs } from "#kit/clock.ts";
import { type QueueEnding, queueEndings } from "#proto/completeness/hour-state.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  asIs,
  defineStatement,
  executePrepared,
  hasRows,
  orNull,
  type RowOf,
  readRow,
  readRows,
  rowReader,
  texts,
  timestamptz,
} from "../database/statements.ts";

/** Open queues of a host that have their own row. */
const openQueuesMax = 64;
/** The precision with which core records when an open queue was last seen. */
const seenSeconds = 3_600;
/** A running queue is seen with the account of each hour. */
const forkedMs = 3 * hourMs;

/** Names a queue. */
export interface QueueName {
  hostId: string;
  queueId: Uint8Array;
}

/** A queue that its client has opened, or sent an account of. */
export interface SeenQueue extends QueueName {
  /** As the client says; false if it does not. */
  sendsAccounts: boolean;
}

/** Records that queues, each of another host, are open, and opens those again that had ended. */
export const noteQueues = async (
  db: Executor,
  queues: readonly SeenQueue[],
  now: Date,
): Promise<void> => {
  const seen = queues.map(({ hostId, queueId, sendsAccounts }) => ({
    host: hostId,
    queue: queueId.toHex(),
    sends: sendsAccounts,
  }));
  await upsertQueues(db, { seen: JSON.stringify(seen), now: now.toISOString() });
};

const upsertQueues = defineStatement(sql`
  insert into ingest_queue as q (host_id, queue_id, first_seen_at, last_seen_at, sends_accounts)
  select host, case when known or (select count(*) from ingest_queue o where o.host_id = host and o.ended_at is null) < ${sql.raw(String(openQueuesMax))}
      then queue_id else '' end, t.now, t.now, sends
  from (select ${sql.placeholder("now")}::timestamptz as now) t,
    json_to_recordset(${sql.placeholder("seen")}::json) as seen (host text, queue text, sends boolean)
    cross join lateral (select decode(queue, 'hex') as queue_id) as id
    cross join lateral (select exists (select from ingest_queue k where k.host_id = host and k.queue_id = id.queue_id) as known) as k
  order by host collate "C"
  on conflict (host_id, queue_id) do update set last_seen_at = excluded.last_seen_at,
    sends_accounts = q.sends_accounts or excluded.sends_accounts, ended_at = null,
    ending = case when q.ending = 'ended' then q.ending end,
    changed_at = case when q.ended_at is null then q.changed_at else excluded.last_seen_at end
  where q.ended_at is not null or q.last_seen_at < excluded.last_seen_at - interval '${sql.raw(String(seenSeconds))} seconds'
    or (excluded.sends_accounts and not q.sends_accounts)`);

/** The end of a queue: until when it binds hours, and why it ended. */
interface QueueEnd {
  endedAt: Date;
  ending: QueueEnding;
}

/** Records that queues were in use at times of which the database does not know, as when it was restored. */
export const noteEarlier = async (
  db: Executor,
  queues: readonly (QueueName & { at: number })[],
  now: Date,
): Promise<void> => {
  const seen = JSON.stringify(
    queues.map(({ hostId, queueId, at }) => ({
      host: hostId,
      queue: queueId.toHex(),
      at: new Date(at).toISOString(),
    })),
  );
  await db.execute(sql`
    insert into ingest_queue as q (host_id, queue_id, first_seen_at, last_seen_at, sends_accounts, changed_at)
    select host, decode(queue, 'hex'), at, at, false, ${timestamptz(now)}
    from json_to_recordset(${seen}::json) as seen (host text, queue text, at timestamptz)
    order by host collate "C", queue
    on conflict (host_id, queue_id) do update set first_seen_at = excluded.first_seen_at, changed_at = excluded.changed_at
    where excluded.first_seen_at < q.first_seen_at`);
};

/** Records that copies of a host's queues have sent. */
export const noteForks = async (
  db: Executor,
  hostId: string,
  queueIds: readonly Uint8Array[],
): Promise<void> => {
  await db.execute(sql`update ingest_queue set is_forked = true
    where host_id = ${hostId} and queue_id = any(${arrayLiteral(queueIds)}::bytea[]) and not is_forked`);
};

/** Ends a queue: see `endQueues`. */
export const endQueue = (
  db: Executor,
  { hostId, queueId }: QueueName,
  end: QueueEnd,
  now: Date,
): Promise<boolean> => endQueues(db, hostId, [queueId], end, now);

/**
 * Ends queues, unless they have ended; returns whether it ended any. A successor does not end a queue of which a copy has sent, because it
 * may be the copy's. The accounts of a successor say more exactly when it began.
 */
export const endQueues = (
  db: Executor,
  hostId: string,
  queueIds: readonly Uint8Array[],
  { endedAt, ending }: QueueEnd,
  now: Date,
): Promise<boolean> =>
  hasRows(
    db.execute(sql`
    update ingest_queue set ended_at = ${timestamptz(endedAt)}, ending = ${ending}, changed_at = ${timestamptz(now)}
    where host_id = ${hostId} and queue_id = any(${arrayLiteral(queueIds)}::bytea[]) and not (is_forked and ${ending === "succeeded"})
      and (ended_at is null or (ending = 'succeeded' and ${ending === "succeeded"} and ended_at > ${timestamptz(endedAt)}))
    returning host_id`),
  );

/** A queue of a host, as core knows it. */
export interface QueueRow {
  /** In hex; empty for the queues beyond the limit. */
  queueId: string;
  firstSeenAt: Date;
  lastSeenAt: Date;
  endedAt: Date | null;
  ending: QueueEnding | null;
}

/** Lists the queues of a host, the newest first. */
export const listQueues = async (db: Executor, hostId: string): Promise<QueueRow[]> => {
  const rows = await db
    .select()
    .from(ingestQueue)
    .where(eq(ingestQueue.hostId, hostId))
    .orderBy(desc(ingestQueue.firstSeenAt));
  return rows.map(({ queueId, ending, ...row }) => ({
    ...row,
    queueId: queueId.toHex(),
    ending: queueEndings.find((name) => name === ending) ?? null,
  }));
};

/** Returns how a queue has ended; null for one that has not, or is unknown. */
export const findEnding = async (
  db: Executor,
  { hostId, queueId }: QueueName,
): Promise<string | null> => {
  const row = await readRow(
    db,
    { ending: orNull(String) },
    sql`select ending from ingest_queue where host_id = ${hostId} and queue_id = ${queueId}`,
  );
  return row?.ending ?? null;
};

/**
 * Ends the open queues of revoked hosts, at their revocation, and those that core has not seen since `lostBefore`, or for hours if a copy
 * has sent.
 */
export const endAbandonedQueues = async (
  db: Executor,
  { lostBefore, now }: { lostBefore: Date; now: Date },
): Promise<void> => {
  await db.execute(sql`
    update ingest_queue q set ended_at = i.revoked_at, ending = 'revoked', changed_at = ${timestamptz(now)}
    from collector_identity i where q.ended_at is null and i.identity = q.host_id and i.revoked_at is not null`);
  const forkedBefore = new Date(now.getTime() - forkedMs);
  const since = sql`case when q.is_forked then ${timestamptz(forkedBefore)} else ${timestamptz(lostBefore)} end`;
  await db.execute(sql`
    update ingest_queue q set ended_at = ${timestamptz(now)}, ending = case when q.is_forked then 'forked' else 'lost' end,
      changed_at = ${timestamptz(now)}
    where q.ended_at is null and q.last_seen_at < ${since}
      and not exists (select from ingest_cursor c where c.host_id = q.host_id and c.queue_id = q.queue_id and c.updated_at >= ${since})`);
};

/** Deletes queues that ended before a time: core no longer has the accounts of their hours. */
export const deleteOldQueues = async (db: Executor, before: Date): Promise<void> => {
  await db.execute(sql`delete from ingest_queue where ended_at < ${timestamptz(before)}`);
};

/** Queues of a host that keep their cursor: the newest ones. */
export const cursorsOfHostMax = 16;

/** A queue's cursor, the session that opened it last, and when it was last written, in milliseconds. */
export type LockedCursor = RowOf<typeof lockedCursor>;
const lockedCursor = {
  cursor: BigInt,
  sessionId: asIs<Uint8Array | null>,
  updatedAt: Date.parse,
};
const lockedOf = rowReader(lockedCursor);

/** A queue to store; without a session, it keeps its stored one. */
export interface StoredQueue extends QueueName {
  cursor: bigint;
  sessionId: Uint8Array | undefined;
  /** Sequences below it that the queue has lost; null if those that the cursor skips are in another sink, uncounted. */
  lost: bigint | null;
}

/** Selects a queue's row of `ingest_cursor`. */
export const isQueue = ({ hostId, queueId }: QueueName) =>
  and(eq(ingestCursor.hostId, hostId), eq(ingestCursor.queueId, queueId));

/** Returns the last committed sequence of a queue; 0 for an unknown queue. */
export const findCursor = async (db: Executor, queue: QueueName): Promise<bigint> => {
  const [row] = await db
    .select({ cursor: ingestCursor.cursor })
    .from(ingestCursor)
    .where(isQueue(queue));
  return row?.cursor ?? 0n;
};

/** Returns the cursors of queues with their sessions, and inserts those of new ones at 0. */
export const findCursors = async (
  db: Executor,
  queues: readonly QueueName[],
): Promise<(QueueName & Pick<LockedCursor, "cursor" | "sessionId">)[]> => {
  const wanted = sql`unnest(${texts(queues.map(({ hostId }) => hostId))},
    ${texts(queues.map(({ queueId }) => queueId.toHex()))}) as wanted (host, queue)`;
  await db.execute(sql`
    insert into ingest_cursor (host_id, queue_id, cursor, counted_through, updated_at)
    select host, decode(queue, 'hex'), 0, 0, clock_timestamp() from ${wanted}
    order by host collate "C", decode(queue, 'hex') on conflict (host_id, queue_id) do nothing`);
  return readRows(
    db,
    {
      hostId: String,
      queueId: asIs<Uint8Array>,
      cursor: BigInt,
      sessionId: asIs<Uint8Array | null>,
    },
    sql`
    select host_id, queue_id, cursor, session_id from ingest_cursor
    join ${wanted} on host_id = host and queue_id = decode(queue, 'hex')`,
  );
};

/**
 * Locks the cursors of queues, each of another host, until the transaction ends; returns them with their sessions. Inserts unknown ones at
 * 0; `trimCursors` limits their number. Locks in the order of commits (commit-batch.ts), so that they never deadlock.
 */
export const lockCursors = async (
  db: Executor,
  queues: readonly QueueName[],
  now: Date,
): Promise<readonly LockedCursor[]> => {
  const wanted = JSON.stringify(
    queues.map(({ hostId, queueId }) => ({ host: hostId, queue: queueId.toHex() })),
  );
  const rows = await lockOrInsert(db, { wanted, now: now.toISOString() });
  const found = new Map(rows.map((row) => [row.host_id, lockedOf(row)]));
  return queues.map(({ hostId }) => {
    const row = found.get(hostId);
    if (row === undefined) throw new Error("an upsert returned no row");
    return row;
  });
};

const lockOrInsert = defineStatement<{ host_id: string }>(
  sql`insert into ingest_cursor (host_id, queue_id, cursor, counted_through, updated_at)
    select host, decode(queue, 'hex'), 0, 0, ${sql.placeholder("now")}::timestamptz
    from json_to_recordset(${sql.placeholder("wanted")}::json) as wanted (host text, queue text)
    order by host collate "C", decode(queue, 'hex')
    on conflict (host_id, queue_id) do update set updated_at = ingest_cursor.updated_at
    returning host_id, cursor, session_id, updated_at`,
);

/**
 * Locks queues of the host of `queue` until the transaction ends, and `queue` itself if core knows it, in the order of `lockCursors`. A
 * missing one is at 0, or null if it may have been trimmed.
 */
export const lockLeftCursors = async (
  db: Executor,
  { hostId, queueId }: QueueName,
  leftIds: readonly Uint8Array[],
): Promise<readonly (LockedCursor | null)[]> => {
  const ids = arrayLiteral([queueId, ...leftIds].map((id) => id.toHex()));
  const rows = await executePrepared<{ queue: string }>(
    db,
    sql`select encode(queue_id, 'hex') as queue, cursor, session_id, updated_at
    from ingest_cursor where host_id = ${hostId} and encode(queue_id, 'hex') = any (${ids}::text[])
    order by queue_id for update`,
  );
  const found = new Map(rows.map((row) => [row.queue, lockedOf(row)]));
  // Read after the locks: if a queue was trimmed meanwhile, as many are left as are kept.
  const isTrimmed =
    (await db.$count(ingestCursor, eq(ingestCursor.hostId, hostId))) >= cursorsOfHostMax;
  const missing = isTrimmed ? null : { cursor: 0n, sessionId: null, updatedAt: 0 };
  return leftIds.map((id) => found.get(id.toHex()) ?? missing);
};

/** Stores the cursors of locked queues, and their sessions if they have one. */
export const updateCursors = async (
  db: Executor,
  states: readonly StoredQueue[],
  now: Date,
): Promise<void> => {
  const moved = JSON.stringify(
    states.map(({ hostId, queueId, cursor, sessionId, lost }) => ({
      host: hostId,
      queue: queueId.toHex(),
      cursor: String(cursor),
      session: sessionId?.toHex(),
      lost: lost?.toString(),
    })),
  );
  await moveCursors(db, { moved, now: now.toISOString() });
};

const moveCursors = defineStatement(
  sql`update ingest_cursor c
    set cursor = m.cursor, range_lost = range_lost + coalesce(m.lost, 0),
      counted_through = case when counted_through = c.cursor and m.lost is not null then m.cursor else counted_through end,
      session_id = coalesce(decode(m.session, 'hex'), c.session_id), updated_at = ${sql.placeholder("now")}::timestamptz
    from json_to_recordset(${sql.placeholder("moved")}::json) as m (host text, queue text, cursor bigint, session text, lost bigint)
    where c.host_id = m.host and c.queue_id = decode(m.queue, 'hex')`,
);

/** Gives a queue to another session, unless its cursor or session has changed; returns whether it did. */
export const takeQueue = (
  db: Executor,
  { hostId, queueId }: QueueName,
  { cursor, held, taken }: { cursor: bigint; held: Uint8Array | null; taken: Uint8Array },
): Promise<boolean> =>
  hasRows(
    db.execute(sql`
    update ingest_cursor set session_id = ${taken}
    where host_id = ${hostId} and queue_id = ${queueId} and cursor = ${String(cursor)}::bigint
      and session_id is not distinct from ${held}::bytea returning host_id`),
  );

/** Deletes all but the newest cursors of these hosts. Skips those that a batch has locked: they are in use, so not old. */
export const trimCursors = async (db: Executor, hostIds: readonly string[]): Promise<void> => {
  if (hostIds.length > 0) await deleteOldest(db, { hosts: arrayLiteral(hostIds) });
};

const deleteOldest = defineStatement(
  sql`delete from ingest_cursor c using (
      select old.* from unnest(${sql.placeholder("hosts")}::text[]) as host cross join lateral (
        select host_id, queue_id from ingest_cursor where host_id = host
        order by updated_at desc, queue_id offset ${cursorsOfHostMax}::int for update skip locked
      ) old
    ) old where c.host_id = old.host_id and c.queue_id = old.queue_id`,
);
