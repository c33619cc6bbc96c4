/**
 * Opens queues. A sequence is used twice only by a copy of a queue: a restored disk, a cloned machine. Invariants:
 * - The queue's session changes only here, under the cursor's lock, to a session whose history contains the previous one. So of two
 *   copies that part, one is rejected with `queue_forked`, and its frames too, as every commit checks the session.
 * - Envelopes that a sender has deleted and that the cursor does not cover are lost with the database: the range is recorded in the
 *   transaction that moves the cursor over it. Their sender never sends them again. One claim, of any host, cannot make the totals
 *   meaningless: what no host can have sent, and what is beyond the bound of recorded events, is added to none. Nothing is lost of a queue
 *   that comes from another sink, which has the range.
 */
import { equalBytes } from "../../kit/bytes.ts";
import type { Open } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { type Database, type Executor, limitLockWaits, planByIndex } from "../store/database.ts";
import {
  findCursor,
  type LockedCursor,
  lockCursors,
  type QueueName,
  trimCursors,
  updateCursors,
} from "../store/ingest-cursors.ts";
import { addGap } from "../store/ingest-gaps.ts";
import { findSinkChange } from "../store/ingest-sinks.ts";
import { queueIdBytes, sequenceMax } from "./examine-frame.ts";
import { inGroups, inTurn } from "./in-turn.ts";
import {
  createQueueEventRecorder,
  forkEvent,
  gapEvent,
  type Loss,
  type LossObserver,
  type QueueEventNeeds,
  sequencesOf,
} from "./queue-events.ts";

/** An opened queue: the session of its frames, absent for a client that names none. */
export interface OpenedQueue extends QueueName {
  cursor: bigint;
  sessionId: Uint8Array | undefined;
}

/** Opens queues; see the invariants above. */
export interface QueueOpener {
  /** Opens a queue. Throws `queue_forked`, `frame_invalid`, or `overloaded` when a thousand others wait. */
  open(claims: Open): Promise<OpenedQueue>;
  /** Records that an open stream was rejected, as a copy of its queue has opened it since. */
  recordFork(queue: OpenedQueue): Promise<void>;
}

/** The dependencies of opening a queue. */
export interface QueueOpenerNeeds extends QueueEventNeeds {
  db: Database;
  observe: LossObserver;
  /** Resolves when the next transaction may begin, of those that queues share; none by default. */
  pause?: () => Promise<void>;
}

const previousSessionsMax = 16;
/** A host that sends 10,000 envelopes a second needs eleven days for so many: a database is not restored to so long ago unnoticed. */
const lostSequencesMax = 10_000_000_000n;

/** Makes the opener. */
export const createQueueOpener = ({ db, clock, entropy, observe, log, pause }: QueueOpenerNeeds): QueueOpener => {
  const record = createQueueEventRecorder({ clock, entropy, log });

  const decideAll = async (tx: Executor, opens: readonly Open[], now: Date) => {
    const rows = await lockCursors(tx, opens, now);
    return opens.map((claims, index): Decision => {
      const row = rows[index] as LockedCursor;
      return { claims, row, ...decideOpen(row, claims) };
    });
  };
  const store = async (tx: Executor, decisions: readonly Decision[], now: Date): Promise<void> => {
    const states = decisions.map(({ claims, cursor }) => ({
      ...queueOf(claims),
      cursor,
      sessionId: sessionOf(claims),
    }));
    const isNew = ({ row }: Decision) => row.sessionId === null && row.cursor === 0n;
    const hosts = decisions.filter(isNew).map(({ claims }) => claims.hostId);
    await Promise.all([updateCursors(tx, states, now), trimCursors(tx, hosts)]);
  };

  /** Opens those that have nothing to record, and returns undefined for the others: to record takes locks of other tables. */
  const openTogether = (opens: readonly Open[]): Promise<(Decision | undefined)[]> =>
    db.transaction(async (tx) => {
      const now = new Date(clock.now());
      const [, , decisions] = await Promise.all([planByIndex(tx), limitLockWaits(tx), decideAll(tx, opens, now)]);
      const quiet = decisions.map((decision) => (decision.isForked || decision.lost ? undefined : decision));
      await store(
        tx,
        quiet.filter((decision) => decision !== undefined),
        now,
      );
      return quiet;
    });
  const openAlone = (open: Open): Promise<Decision> =>
    db.transaction(async (tx) => {
      const now = new Date(clock.now());
      const [decision] = (await decideAll(tx, [open], now)) as [Decision];
      const { isForked, lost, row } = decision;
      if (!isForked) await store(tx, [decision], now);
      if (lost && !isForked && (await isOfOtherSink(tx, row))) {
        const range = { from: String(lost.from), through: String(lost.through) };
        log.warn(
          { host_id: open.hostId, queue_id: open.queueId.toHex(), ...range },
          "the queue comes from another sink, which stored the range",
        );
        return { ...decision, lost: undefined };
      }
      const event = lost && gapEvent(lost);
      const events = [...(event ? [event] : []), ...(isForked ? [forkEvent(row.cursor)] : [])];
      const recorded = events.length > 0 ? await record(tx, queueOf(open), events) : [];
      if (lost === undefined || event === undefined) return decision;
      const isPlausible = lost.isPlausible && recorded.includes(event);
      if (isPlausible) await addGap(tx, open.hostId, sequencesOf(lost), now);
      return { ...decision, lost: { ...lost, isPlausible } };
    });
  const keyOf = ({ hostId }: QueueName) => hostId;
  const openInGroup = inGroups(openTogether, { keyOf, pause });
  const openInTurn = inTurn(openAlone, keyOf);
  const findInTurn = inTurn((queue: QueueName) => findCursor(db, queue), keyOf);

  return {
    async open(claims) {
      checkOpen(claims);
      const queue = queueOf(claims);
      const sessionId = sessionOf(claims);
      if (sessionId === undefined && claims.ackedThrough === 0n)
        return { ...queue, sessionId, cursor: await findInTurn(queue) };
      const { isForked, lost, cursor } = (await openInGroup(claims)) ?? (await openInTurn(claims));
      if (lost?.isPlausible) observe.gap(sequencesOf(lost));
      else if (lost) observe.implausibleGap();
      if (isForked) throw new Problem("queue_forked");
      return { ...queue, sessionId, cursor };
    },
    async recordFork(queue) {
      await db.transaction((tx) => record(tx, queue, [forkEvent(queue.cursor)]));
    },
  };
};

type Decision = ReturnType<typeof decideOpen> & { claims: Open; row: LockedCursor };

/** Whether a queue was last open in PostgreSQL before core used another sink: what was acknowledged since is in that one, and not lost. */
const isOfOtherSink = async (tx: Executor, { cursor, sessionId, updatedAt }: LockedCursor): Promise<boolean> => {
  const changedAt = await findSinkChange(tx);
  return changedAt !== null && ((cursor === 0n && sessionId === null) || updatedAt < changedAt);
};

const queueOf = ({ hostId, queueId }: Open): QueueName => ({ hostId, queueId });
/** A client need not name a session; its frames are not fenced. */
const sessionOf = ({ sessionId }: Open): Uint8Array | undefined => (sessionId.length > 0 ? sessionId : undefined);

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
): { isForked: boolean; cursor: bigint; lost: Loss | undefined } => {
  const { sessionId: held } = row;
  const isOwn =
    sessionId.length === 0 || held === null || [sessionId, ...previousSessionIds].some((id) => equalBytes(id, held));
  const isForked = !isOwn || (sentThrough !== undefined && row.cursor > sentThrough);
  const isPlausible = ackedThrough - row.cursor <= lostSequencesMax;
  const lost = ackedThrough > row.cursor ? { from: row.cursor + 1n, through: ackedThrough, isPlausible } : undefined;
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
