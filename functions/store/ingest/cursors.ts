import { and, eq, sql } from "drizzle-orm";
import { ingestCursor } from "../../../drizzle/schema/ingest.ts";
import type { Executor } from "../database/database.ts";
import { defineStatement, executePrepared } from "../database/execute-prepared.ts";
import { arrayLiteral } from "../database/query-parts.ts";

/** How many queues of a host keep their cursor: the newest ones. */
export const cursorsOfHostMax = 16;

/** Names a queue. */
export interface QueueName {
  hostId: string;
  queueId: Uint8Array;
}

/** A queue's cursor, the session that opened it last, and when it was last written, in milliseconds. */
export interface LockedCursor {
  cursor: bigint;
  sessionId: Uint8Array | null;
  updatedAt: number;
}

/** A queue as it is stored: without a session, the one that it has stays. */
export interface StoredQueue extends QueueName {
  cursor: bigint;
  sessionId: Uint8Array | undefined;
  /** How many sequences the queue has lost below it; null where those that the cursor moves over are in another sink, uncounted. */
  lost: bigint | null;
}

const isQueue = ({ hostId, queueId }: QueueName) =>
  and(eq(ingestCursor.hostId, hostId), eq(ingestCursor.queueId, queueId));

/** Returns the last committed sequence of a queue; 0 for one that core has not seen. */
export const findCursor = async (db: Executor, queue: QueueName): Promise<bigint> => {
  const [row] = await db
    .select({ cursor: ingestCursor.cursor })
    .from(ingestCursor)
    .where(isQueue(queue));
  return row?.cursor ?? 0n;
};

/**
 * Locks the cursors of queues, each of another host, until the transaction ends; returns them with their sessions. Inserts at 0 those that
 * core has not seen; `trimCursors` bounds these. Locks in the order of commits (commit-frames.ts), so that they never deadlock.
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
  const found = new Map(rows.map((row) => [row.host_id, row]));
  return queues.map(({ hostId }) => {
    const row = found.get(hostId);
    if (row === undefined) throw new Error("an upsert returned no row");
    return lockedOf(row);
  });
};

const lockOrInsert = defineStatement<{
  host_id: string;
  cursor: string;
  session: string | null;
  updated: string;
}>(
  sql`insert into ingest_cursor (host_id, queue_id, cursor, counted_through, updated_at)
    select host, decode(queue, 'hex'), 0, 0, ${sql.placeholder("now")}::timestamptz
    from json_to_recordset(${sql.placeholder("wanted")}::json) as wanted (host text, queue text)
    order by host collate "C", decode(queue, 'hex')
    on conflict (host_id, queue_id) do update set updated_at = ingest_cursor.updated_at
    returning host_id, cursor::text, encode(session_id, 'hex') as session,
      (extract(epoch from ingest_cursor.updated_at) * 1000)::bigint::text as updated`,
);

const lockedOf = (row: {
  cursor: string;
  session: string | null;
  updated: string;
}): LockedCursor => ({
  cursor: BigInt(row.cursor),
  sessionId: row.session === null ? null : Uint8Array.fromHex(row.session),
  updatedAt: Number(row.updated),
});

/**
 * Locks queues of the host of `queue` until the transaction ends, and `queue` with them where core has seen it, in the order of
 * `lockCursors`. One that is missing is at 0, or null where it may have been trimmed.
 */
export const lockLeftCursors = async (
  db: Executor,
  { hostId, queueId }: QueueName,
  leftIds: readonly Uint8Array[],
): Promise<readonly (LockedCursor | null)[]> => {
  const ids = arrayLiteral([queueId, ...leftIds].map((id) => id.toHex()));
  const rows = await executePrepared<{
    queue: string;
    cursor: string;
    session: string | null;
    updated: string;
  }>(
    db,
    sql`select encode(queue_id, 'hex') as queue, cursor::text, encode(session_id, 'hex') as session,
      (extract(epoch from updated_at) * 1000)::bigint::text as updated
    from ingest_cursor where host_id = ${hostId} and encode(queue_id, 'hex') = any (${ids}::text[])
    order by queue_id for update`,
  );
  const found = new Map(rows.map(({ queue, ...row }) => [queue, row]));
  // After the locks: one that was trimmed meanwhile left as many as are kept.
  const isTrimmed =
    (await db.$count(ingestCursor, eq(ingestCursor.hostId, hostId))) >= cursorsOfHostMax;
  return leftIds.map((id) => {
    const row = found.get(id.toHex());
    return row === undefined
      ? isTrimmed
        ? null
        : { cursor: 0n, sessionId: null, updatedAt: 0 }
      : lockedOf(row);
  });
};

/** Stores the cursors of locked queues, and the sessions of those that have one. */
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

/** Deletes all but the newest cursors of these hosts. One that a batch has locked is in use, so not old: it is skipped. */
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
