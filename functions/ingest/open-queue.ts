/**
 * Opens queues. A sequence is used twice only by a copy of a queue: a restored disk, a cloned machine. Invariants:
 * - The queue's session changes only here, under the cursor's lock, to a session whose history contains the previous one. So of two
 *   copies that part, one is rejected with `queue_forked`, and its frames too, as every commit checks the session.
 * - Envelopes that a sender has deleted and that the cursor does not cover are lost with the database: the range is recorded in the
 *   transaction that moves the cursor over it. Their sender never sends them again.
 */
import { LRUCache } from "lru-cache";
import { equalBytes } from "../../kit/bytes.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Open } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { type AuditEntry, recordAudits } from "../domain/audit/audit-log.ts";
import { Problem } from "../problems.ts";
import type { Database, Executor } from "../store/database.ts";
import { findIdentityByName } from "../store/identities.ts";
import { findCursor, lockCursor, type QueueName, trimCursors, updateCursor } from "../store/ingest-cursors.ts";
import { addGap } from "../store/ingest-gaps.ts";
import { queueIdBytes, sequenceMax } from "./examine-frame.ts";

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
export interface QueueOpenerNeeds {
  db: Database;
  clock: Clock;
  entropy: Entropy;
  /** Receives how many sequences a database has lost of a queue; those without an envelope count too. */
  observe: { gap(sequences: bigint): void };
  log: { warn(fields: object, message: string): void };
}

const previousSessionsMax = 16;
/** Forks and gaps of one host that this core records in an hour: a caller must not fill the audit log. */
const eventsOfHostMax = 100;
const eventsWindowMs = 3_600_000;

/** Makes the opener. */
export const createQueueOpener = ({ db, clock, entropy, observe, log }: QueueOpenerNeeds): QueueOpener => {
  const recorded = new LRUCache<string, { since: number; events: number }>({ max: 10_000 });

  /** Returns whether an event of this host may be recorded, and counts it. */
  const mayRecord = (hostId: string): boolean => {
    const now = clock.monotonic();
    let window = recorded.get(hostId);
    if (window === undefined || now - window.since >= eventsWindowMs) {
      window = { since: now, events: 0 };
      recorded.set(hostId, window);
    }
    return ++window.events <= eventsOfHostMax;
  };

  const record = async (tx: Executor, queue: QueueName, facts: readonly QueueFact[]): Promise<void> => {
    const queue_id = queue.queueId.toHex();
    for (const { action, reason, details } of facts)
      log.warn({ action, host_id: queue.hostId, queue_id, ...details }, reason);
    const kept = facts.filter(() => mayRecord(queue.hostId));
    if (kept.length === 0) return;
    const identity = await findIdentityByName(tx, queue.hostId);
    const id = identity?.id ?? queue.hostId;
    const actor = { type: "collector", id, display: queue.hostId } as const;
    const target = { type: identity ? "collector_identity" : "host", id };
    const entries = kept.map(
      ({ details, ...fact }): AuditEntry => ({
        ...fact,
        actor,
        target,
        outcome: "failure",
        details: { host_id: queue.hostId, queue_id, ...details },
      }),
    );
    await recordAudits(tx, { clock, entropy }, entries);
  };

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
        const facts = [...(lost ? [gapFact(lost)] : []), ...(isForked ? [forkFact(row.cursor)] : [])];
        if (facts.length > 0) await record(tx, queue, facts);
        if (lost) await addGap(tx, hostId, lost.through - lost.from + 1n, now);
        return { isForked, cursor, lost };
      });
      if (decision.lost) observe.gap(decision.lost.through - decision.lost.from + 1n);
      if (decision.isForked) throw new Problem("queue_forked");
      return { ...queue, cursor: decision.cursor, sessionId: isFenced ? sessionId : undefined };
    },
    async recordFork(queue) {
      await db.transaction((tx) => record(tx, queue, [forkFact(queue.cursor)]));
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

/** An event of a queue, for the log and the audit log. */
interface QueueFact {
  action: "queue.forked" | "ingest.gap";
  reason: string;
  reasonCode: string;
  details: Record<string, number | string>;
}

/** Exact in JSON up to 2^53, else as text. */
const sequenceOf = (sequence: bigint): number | string =>
  sequence <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(sequence) : String(sequence);

const gapFact = ({ from, through }: { from: bigint; through: bigint }): QueueFact => ({
  action: "ingest.gap",
  reason: "the database lost envelopes that it had acknowledged: it was restored from a backup",
  reasonCode: "database_restored",
  details: { from: sequenceOf(from), through: sequenceOf(through) },
});

const forkFact = (cursor: bigint): QueueFact => ({
  action: "queue.forked",
  reason:
    "a copy of the queue has sent: a disk was restored or a machine cloned; envelopes acknowledged since may be stored twice, under two queue ids",
  reasonCode: "queue_forked",
  details: { cursor: sequenceOf(cursor) },
});

const checkOpen = ({
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
