import { createHash } from "node:crypto";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { isDiskUnwritable } from "./errors.ts";
import { type QueueState, unsent } from "./format.ts";
import {
  type LeftQueue,
  leaveQueue,
  leftCheckpoint,
  leftQueueSource,
  leftQueuesOfHost,
} from "./left-queues.ts";
import type { QueueStore, QueueTransaction } from "./store.ts";

/** The claims with which the collector opens the queue in core (docs/protocol.md, "Fencing"). */
interface QueueSession {
  readonly queueId: Uint8Array<ArrayBuffer>;
  readonly sessionId: Uint8Array<ArrayBuffer>;
  /** Oldest first. */
  readonly previousSessionIds: readonly Uint8Array<ArrayBuffer>[];
  /** Everything at or below it was acknowledged under this queue id, and is deleted. */
  readonly ackedThrough: number;
  /** The highest sequence that can have been sent under this queue id. */
  readonly sentThrough: number;
  /** The queue ids that it left as this host's, the newest first. */
  readonly leftQueues: readonly LeftQueue[];
}

/** The sessions of a queue with core. */
export interface QueueSessions {
  /** The highest sequence that can have been sent under this queue id. */
  sentThrough(): number;
  /**
   * Starts a session with core, for one stream of `hostId`: its id is on disk when this returns. While the disk cannot be written, it is in
   * memory alone, and on disk with the next: a collector that ends before that finds itself taken for a copy, and sends again what it has. It
   * is never one of before, which a copy of the machine may have too. A queue that was another host's, or that could not be forked, gets a new
   * queue id first, or throws.
   */
  beginSession(hostId: string): QueueSession;
  /** Core has opened the queue for the current session, with its cursors of the left queues. Call it before the first frame is sent. */
  sessionAnswered(leftCursors?: readonly number[]): void;
  /** Records up to `sequence` are about to be sent. */
  markSent(sequence: number): void;
  /**
   * Continues under a new queue id with everything that is not acknowledged, and counts it: core knows a copy of this queue, which has
   * used its sequences for other records (docs/protocol.md, "Fencing").
   */
  fork(): void;
}

type Change = (transaction: QueueTransaction) => void;

/** The part of a queue's pending writes that sessions use. */
interface AckWrites {
  /** Deletes what core has acknowledged: it does not count under a new queue id, and a session states all of it. */
  deleteAcked: Change;
  /** The highest sequence that core has acknowledged, deleted or not. */
  acknowledged(): number;
  /** The queue has another id, under which nothing is acknowledged. */
  forgetAcks(): void;
  /** There may be room for appends that wait. */
  admitWaiting(): void;
}

/**
 * Creates the sessions of an open queue, which must make all its changes by `write` or `writeIfPossible`: these also store whether core
 * has answered since the start. Without that, a restart would count as sent what was appended meanwhile, and take a copy's records for
 * its own.
 */
export const createQueueSessions = (
  store: QueueStore,
  { clock, entropy }: { clock: Clock; entropy: Entropy },
  {
    transact,
    onRenamed,
    writes,
  }: {
    /** Runs a transaction of the store. */
    transact(change: Change): void;
    /** The queue gets another id in this transaction; everything through `acked` is acknowledged under the last one. */
    onRenamed(transaction: QueueTransaction, acked: number): void;
    writes: AckWrites;
  },
) => {
  let isAnswered = 0;
  /** Sessions that are not on disk yet, oldest first. */
  let unsaved: Uint8Array<ArrayBuffer>[] = [];
  /** The highest sequence that earlier processes can have sent. */
  let sentBefore = store.state.isAnswered ? store.state.nextSequence - 1 : store.state.sentThrough;
  let sentNow = 0;
  /** Core has rejected the queue as a copy. It is not opened again, also while the disk cannot be written. */
  let isForked = false;
  /** Those that the current session names. */
  let leftQueues: readonly LeftQueue[] = [];

  const write = (change: Change) =>
    transact((transaction) => {
      Object.assign(transaction.state, { isAnswered, sentThrough: sentBefore });
      change(transaction);
    });

  /** Returns false while the disk cannot be written: the change may wait. */
  const writeIfPossible = (change: Change) => {
    try {
      write(change);
    } catch (error) {
      if (isDiskUnwritable(error)) return false;
      throw error;
    }
    writes.admitWaiting();
    return true;
  };

  const changeQueueId = (forks: number) => {
    write((transaction) => {
      const { state } = transaction;
      writes.deleteAcked(transaction);
      const left = leaveQueue(store.checkpoints(leftQueueSource), state, forks > 0);
      left.forEach(transaction.putCheckpoint);
      const acked = state.ackedThrough;
      Object.assign(state, unsent, { queueId: entropy.bytes(idBytes), forks: state.forks + forks });
      onRenamed(transaction, acked);
    });
    isForked = false;
    isAnswered = 0;
    sentBefore = 0;
    sentNow = 0;
    unsaved = [];
    writes.forgetAcks();
    writes.admitWaiting();
  };

  const sentThrough = () => Math.max(sentBefore, sentNow);

  const sessions: QueueSessions = {
    sentThrough,
    beginSession: (hostId) => {
      if (isForked) changeQueueId(1);
      if (store.state.hostId !== hostId && store.state.hostId !== "") changeQueueId(0);
      const sessionId = drawSessionId(clock, entropy);
      unsaved.push(sessionId);
      const { queueId } = store.state;
      const history = sessionsOf(store.state, unsaved);
      // All that is acknowledged is claimed: what is deleted later would otherwise be neither claimed nor sent.
      const ackedThrough = Math.max(store.state.ackedThrough, writes.acknowledged());
      const isSaved = writeIfPossible((transaction) => {
        writes.deleteAcked(transaction);
        Object.assign(transaction.state, { hostId, sessions: history });
      });
      if (isSaved) unsaved = [];
      const previousSessionIds = idsOf(history).slice(0, -1);
      leftQueues = leftQueuesOfHost(store.checkpoints(leftQueueSource), { hostId, queueId });
      return {
        queueId,
        sessionId,
        previousSessionIds,
        ackedThrough,
        sentThrough: sentThrough(),
        leftQueues,
      };
    },
    sessionAnswered: (leftCursors = []) => {
      isAnswered = 1;
      // If the disk cannot be written, the queue may be taken for a copy after a restart: that loses nothing.
      const isSaved = writeIfPossible(({ state, putCheckpoint }) => {
        state.sessions = sessionsOf(state, unsaved);
        state.answeredSession = idsOf(state.sessions).at(-1) ?? state.answeredSession;
        for (const [index, left] of leftQueues.entries()) {
          const storedThrough = leftCursors[index] ?? left.storedThrough;
          // Also a lower one: core has recorded what it lost.
          if (storedThrough !== left.storedThrough)
            putCheckpoint(leftCheckpoint({ ...left, storedThrough }));
        }
      });
      if (isSaved) unsaved = [];
    },
    markSent: (sequence) => {
      sentNow = Math.max(sentNow, sequence);
    },
    fork: () => {
      isForked = true;
      changeQueueId(1);
    },
  };
  return { sessions, write, writeIfPossible, changeQueueId };
};

const idBytes = 16;
/** The length of a queue's history, with the current session. */
const sessionsMax = 16;
/** So many of them are the newest that core has not answered: it may have opened one, and failed then. */
const unansweredMax = 8;

/**
 * Draws the id of a session. A machine that was cloned with its memory has a clone's random numbers too, until the kernel draws new
 * ones: the monotonic time, in parts of a microsecond, makes the ids differ.
 */
const drawSessionId = (clock: Clock, entropy: Entropy): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(
    createHash("sha256")
      .update(entropy.bytes(32))
      .update(`${clock.now()} ${clock.monotonic()}`)
      .digest(),
  ).slice(0, idBytes);

/**
 * Returns the history of a queue with more sessions. The oldest leave it, but never the last one that core has answered; and those leave it that
 * an outage has left unanswered, except its first and last ones: a database that is restored has one that was answered before.
 */
const sessionsOf = (
  { sessions, answeredSession }: Pick<QueueState, "sessions" | "answeredSession">,
  more: readonly Uint8Array<ArrayBuffer>[],
): Uint8Array<ArrayBuffer> => {
  const ids = [...idsOf(sessions), ...more];
  const answered = answeredSession.toHex();
  const since = ids.findLastIndex((id) => id.toHex() === answered) + 1;
  const half = unansweredMax / 2;
  if (ids.length - since > unansweredMax)
    ids.splice(since + half, ids.length - since - unansweredMax);
  return Uint8Array.from(Buffer.concat(ids.slice(-sessionsMax)));
};

const idsOf = (sessions: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] =>
  Array.from({ length: Math.floor(sessions.length / idBytes) }, (_, index) =>
    sessions.slice(index * idBytes, (index + 1) * idBytes),
  );
