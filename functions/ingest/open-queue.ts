/**
 * Opens queues. A sequence is used twice only by a copy of a queue: a restored disk, a cloned machine. Invariants:
 * - The queue's session changes only here, under the cursor's lock, to a session whose history contains the previous one. So of two
 *   copies that part, one is rejected with `queue_forked`, and its frames too, as every commit checks the session.
 * - Envelopes that a sender has deleted and that the cursor does not cover are lost with the database: the range is recorded in the
 *   transaction that moves the cursor over it. Their sender never sends them again.
 */
import { equalBytes } from "../../kit/bytes.ts";
import type { Open } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import type { Database } from "../store/database.ts";
import { findCursor, lockCursor, type QueueName, trimCursors, updateCursor } from "../store/ingest-cursors.ts";
import { addGap } from "../store/ingest-gaps.ts";
import { queueIdBytes, sequenceMax } from "./examine-frame.ts";
import { createQueueEventRecorder, forkEvent, gapEvent, type QueueEventNeeds } from "./queue-events.ts";

/** An opened queue: the session of its frames, absent for a client that names none. */
export interface OpenedQueue extends QueueName {
  cursor: bigint;
  sessionId: Uint8Array | undefined;
}

/** Opens queues; see the invariants above. */
export interface QueueOpener {
  /** Opens a queue whose claims are checked. Throws `queue_forked`, or `frame_invalid`. */
  open(claims: Open): Promise<OpenedQueue>;
  /** Records that an open stream was rejected, as a copy of its queue has opened it since. */
  recordFork(queue: OpenedQueue): Promise<void>;
}

/** The dependencies of opening a queue. */
export interface QueueOpenerNeeds extends QueueEventNeeds {
  db: Database;
  /** Receives how many sequences a database has lost of a queue; those without an envelope count too. */
  observe: { gap(sequences: bigint): void };
}

const previousSessionsMax = 16;

/** Makes the opener. */
export const createQueueOpener = ({ db, clock, entropy, observe, log }: QueueOpenerNeeds): QueueOpener => {
  const record = createQueueEventRecorder({ clock, entropy, log });
  return {
    async open({ hostId, queueId, sessionId, previousSessionIds, ackedThrough, sentThrough }) {
      checkOpen({ sessionId, previousSessionIds, ackedThrough });
      const queue = { hostId, queueId };
      const isFenced = sessionId.length > 0;
      if (!isFenced && ackedThrough === 0n)
        return { ...queue, sessionId: undefined, cursor: await findCursor(db, queue) };
      const decision = await db.transaction(async (tx) => {
        const now = new Date(clock.now());
        const row = await lockCursor(tx, queue, now);
        const claimed = { sessionId, previousSessionIds, ackedThrough, sentThrough };
        const { isForked, lost, cursor } = decideOpen(row, claimed);
        if (!isForked) await updateCursor(tx, queue, { cursor, ...(isFenced && { sessionId }), updatedAt: now });
        if (row.sessionId === null && row.cursor === 0n) await trimCursors(tx, hostId);
        const events = [...(lost ? [gapEvent(lost)] : []), ...(isForked ? [forkEvent(row.cursor)] : [])];
        if (events.length > 0) await record(tx, queue, events);
        if (lost) await addGap(tx, hostId, lost.through - lost.from + 1n, now);
        return { isForked, cursor, lost };
      });
      if (decision.lost) observe.gap(decision.lost.through - decision.lost.from + 1n);
      if (decision.isForked) throw new Problem("queue_forked");
      return { ...queue, cursor: decision.cursor, sessionId: isFenced ? sessionId : undefined };
    },
    async recordFork(queue) {
      await db.transaction((tx) => record(tx, queue, [forkEvent(queue.cursor)]));
    },
  };
};

/** The claims that decide whether a queue may be opened. */
type OpenClaims = Pick<Open, "sessionId" | "previousSessionIds" | "ackedThrough"> & {
  sentThrough?: bigint | undefined;
};

/**
 * Decides whether a queue may be opened, at which cursor, and what the database has lost of it: see the invariants above. A client
 * without a session is no copy of anything.
 */
export const decideOpen = (
  row: { cursor: bigint; sessionId: Uint8Array | null },
  { sessionId, previousSessionIds, ackedThrough, sentThrough }: OpenClaims,
): { isForked: boolean; cursor: bigint; lost: { from: bigint; through: bigint } | undefined } => {
  const { sessionId: held } = row;
  const isOwn =
    sessionId.length === 0 || held === null || [sessionId, ...previousSessionIds].some((id) => equalBytes(id, held));
  const isForked = !isOwn || (sentThrough !== undefined && row.cursor > sentThrough);
  const lost = ackedThrough > row.cursor ? { from: row.cursor + 1n, through: ackedThrough } : undefined;
  return { isForked, cursor: lost && !isForked ? lost.through : row.cursor, lost };
};

/** Rejects an Open whose ids or sequences are malformed, with `frame_invalid`. */
export const checkOpen = ({
  sessionId,
  previousSessionIds,
  ackedThrough,
}: Pick<Open, "sessionId" | "previousSessionIds" | "ackedThrough">): void => {
  const invalid = (detail: string) => new Problem("frame_invalid", { detail });
  if (sessionId.length !== 0 && sessionId.length !== queueIdBytes)
    throw invalid(`session_id must be ${queueIdBytes} bytes`);
  if (previousSessionIds.length > previousSessionsMax)
    throw invalid(`previous_session_ids may have ${previousSessionsMax} ids`);
  if (previousSessionIds.some(({ length }) => length !== queueIdBytes))
    throw invalid(`a previous session id must be ${queueIdBytes} bytes`);
  if (ackedThrough > sequenceMax) throw invalid("acked_through is above 2^63-1");
};
