import { and, desc, eq, inArray, sql } from "drizzle-orm";
import { ingestCursor } from "../../drizzle/schema/ingest.ts";
import type { Executor } from "./database.ts";

/** How many queues of a host keep their cursor: the newest ones. */
export const cursorsOfHostMax = 16;

/** Names a queue. */
export interface QueueName {
  hostId: string;
  queueId: Uint8Array;
}

const isQueue = ({ hostId, queueId }: QueueName) =>
  and(eq(ingestCursor.hostId, hostId), eq(ingestCursor.queueId, queueId));

/** Returns the last committed sequence of a queue; 0 for one that core has not seen. */
export const findCursor = async (db: Executor, queue: QueueName): Promise<bigint> => {
  const [row] = await db.select({ cursor: ingestCursor.cursor }).from(ingestCursor).where(isQueue(queue));
  return row?.cursor ?? 0n;
};

/**
 * Locks a queue's cursor until the transaction ends, and returns it with its session. Inserts it at 0 for a queue that core has not
 * seen; `trimCursors` bounds these.
 */
export const lockCursor = async (
  db: Executor,
  queue: QueueName,
  now: Date,
): Promise<{ cursor: bigint; sessionId: Uint8Array | null }> => {
  const [row] = await db
    .insert(ingestCursor)
    .values({ ...queue, cursor: 0n, updatedAt: now })
    .onConflictDoUpdate({
      target: [ingestCursor.hostId, ingestCursor.queueId],
      set: { updatedAt: sql`${ingestCursor.updatedAt}` },
    })
    .returning({ cursor: ingestCursor.cursor, sessionId: ingestCursor.sessionId });
  if (row === undefined) throw new Error("an upsert returned no row");
  return row;
};

/** Stores the cursor and the session of a locked queue. */
export const updateCursor = async (
  db: Executor,
  queue: QueueName,
  state: { cursor: bigint; sessionId?: Uint8Array; updatedAt: Date },
): Promise<void> => {
  await db.update(ingestCursor).set(state).where(isQueue(queue));
};

/** Deletes all but the newest cursors of a host. One that a batch has locked is in use, so not old: it is skipped. */
export const trimCursors = async (db: Executor, hostId: string): Promise<void> => {
  const old = db
    .select({ queueId: ingestCursor.queueId })
    .from(ingestCursor)
    .where(eq(ingestCursor.hostId, hostId))
    .orderBy(desc(ingestCursor.updatedAt), ingestCursor.queueId)
    .offset(cursorsOfHostMax)
    .for("update", { skipLocked: true });
  await db.delete(ingestCursor).where(and(eq(ingestCursor.hostId, hostId), inArray(ingestCursor.queueId, old)));
};
