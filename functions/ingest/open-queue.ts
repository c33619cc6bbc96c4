/**
 * Opens queues: decides whether a sender may continue a queue, at which cursor, and what core has lost of it.
 *
 * A fork is a copy of a queue, as of a restored disk or a cloned machine, which would use its sequences a second time. Invariants:
 * - Beside adoption, only this file changes a queue's session, under the cursor's lock, to one whose history contains the previous one. So of two
 *   forks, one is rejected with `queue_forked`.
 * - What is late proves no fork. A frame of an earlier session ends its stream, and its sender opens the queue again. An Open whose stream has
 *   ended is not recorded as a fork, because its sender may have opened the queue since.
 * - A host states which of the queues that it left were copied, so that a restored database knows that another machine may send under them.
 *
 * A sender deletes envelopes once core has acknowledged them. Those that the cursor does not cover are lost with the database. Invariants:
 * - The lost range is recorded in the transaction that moves the cursor over it.
 * - The same holds for queues that the sender has left, except those that core no longer has: they may have been trimmed.
 * - Sequences continue across the ids of a host's queues: what was acknowledged under an earlier id is not lost of a later one.
 * - No total counts what no host can have sent, or what is beyond the bound of recorded events: no claim makes the totals meaningless.
 * - A queue that comes from JetStream, of an earlier version, has lost nothing here: the stream has the range.
 */
import { highest } from "#kit/bigint.ts";
import { equalBytes } from "#kit/bytes.ts";
import { type Clock, TimedOut, withTimeout } from "#kit/clock.ts";
import type { LeftQueue, Open } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { queueIdBytes, sequenceMax } from "#proto/limits/message-limits.ts";
import { Problem } from "../problems.ts";
import type { LockedCursor, QueueName, SeenQueue, StoredQueue } from "../store/ingest/queues.ts";
import type { QueueClaim } from "./adopted-frames.ts";
import { inGroups, inTurn } from "./in-groups.ts";
import {
  countLoss,
  createRecordedLosses,
  forkEvent,
  type Loss,
  type LossObserver,
  type LossRegister,
  type RecordedLoss,
  recordLoss,
  sequencesOf,
} from "./queue-events.ts";

/** An opened queue: the session of its frames, absent for a client that names none. */
export interface OpenedQueue extends QueueName {
  cursor: bigint;
  sessionId: Uint8Array | undefined;
  /** The left queues that the client named, in their order. */
  left?: readonly LeftCursor[] | undefined;
}

/** The cursor of a queue that its host has left, and through where it says that core had acknowledged it. */
export interface LeftCursor {
  queueId: Uint8Array;
  cursor: bigint;
  ackedThrough: bigint;
}

/** Opens queues; see the invariants above. */
export type QueueOpener = ReturnType<typeof createQueueOpener>;

/** The cursors and sessions of queues, and what is recorded of them, in transactions of `Tx`. */
export interface QueueRegister<Tx> extends LossRegister<Tx> {
  /** Runs `work` in a transaction. Its waits for locks are short where it is `shared` by several queues. */
  transaction<Result>(
    work: (tx: Tx) => Promise<Result>,
    options?: { isShared: boolean },
  ): Promise<Result>;
  /** Locks queues of different hosts until the transaction ends, and inserts at 0 those that are new. */
  lock(tx: Tx, queues: readonly QueueName[], now: Date): Promise<readonly LockedCursor[]>;
  /** Locks those of a host's queues that are named, before `lock` does one of them. A `null` may have been trimmed. */
  lockLeft(
    tx: Tx,
    queue: QueueName,
    leftIds: readonly Uint8Array[],
  ): Promise<readonly (LockedCursor | null)[]>;
  update(tx: Tx, queues: readonly StoredQueue[], now: Date): Promise<void>;
  /** Notes that queues, each of another host, are open. */
  note(tx: Tx, queues: readonly SeenQueue[], now: Date): Promise<void>;
  /** Notes that copies of a host's queues have sent. */
  noteForks(tx: Tx, hostId: string, queueIds: readonly Uint8Array[]): Promise<void>;
  /** Ends queues that a host has left. */
  endLeft(tx: Tx, hostId: string, queueIds: readonly Uint8Array[], endedAt: Date): Promise<void>;
  /** Deletes the oldest queues of hosts that have many. */
  trim(tx: Tx, hostIds: readonly string[]): Promise<void>;
  /** Returns when core began to use another sink, in milliseconds; null if never. */
  findSinkChange(tx: Tx): Promise<number | null>;
  /** Returns what is another once the database may be in an earlier state. */
  readServerState(tx: Tx): Promise<string>;

  /** Returns the cursor of a queue that is not locked; 0 for one that is new. */
  findCursor(queue: QueueName): Promise<bigint>;
}

/** The dependencies of opening a queue. */
export interface QueueOpenerNeeds<Tx> {
  register: QueueRegister<Tx>;
  clock: Pick<Clock, "now" | "sleep" | "monotonic">;
  observe: LossObserver;
  log: { warn(fields: object, message: string): void };
  /**
   * Finds again what the database does not have and an object store has; returns whether it found anything of these queues. Awaited before a
   * loss is recorded. None by default.
   */
  recover?: ((claims: readonly QueueClaim[]) => Promise<boolean>) | undefined;
  /** Resolves when the next transaction may begin, of those that queues share; none by default. */
  pause?: (() => Promise<void>) | undefined;
}

/** A host waits for as long for what core recovers; then it opens the queue again. It would give up itself after a minute. */
const recoverMsMax = 50_000;

/** A host that sends 10,000 envelopes a second needs eleven days for so many: a database is not restored to so long ago unnoticed. */
const lostSequencesMax = 10_000_000_000n;

/** Creates the opener. */
export const createQueueOpener = <Tx>({
  register,
  clock,
  observe,
  log,
  pause,
  recover,
}: QueueOpenerNeeds<Tx>) => {
  const losses = createLosses({ register, observe });
  const decideAll = async (tx: Tx, opens: readonly Open[], now: Date) => {
    const rows = await register.lock(tx, opens, now);
    return opens.map((claims, index): Decision => {
      const row = rows[index] as LockedCursor;
      return { claims, row, ...decideOpen(row, claims) };
    });
  };
  const store = async (tx: Tx, decisions: readonly Decision[], now: Date): Promise<void> => {
    const states = decisions.map(({ claims, cursor, lostHere = 0n }) => ({
      ...queueOf(claims),
      cursor,
      sessionId: sessionOf(claims),
      lost: lostHere,
    }));
    const isNew = ({ row }: Decision) => row.sessionId === null && row.cursor === 0n;
    const hosts = decisions.filter(isNew).map(({ claims }) => claims.hostId);
    const opens = decisions.map(({ claims }) => claims);
    await Promise.all([
      register.update(tx, states, now),
      register.note(tx, opens, now),
      register.trim(tx, hosts),
    ]);
  };

  /** Opens those that have nothing to record, and returns undefined for the others: to record takes locks of other tables. */
  const openTogether = (opens: readonly Open[]): Promise<(Decision | undefined)[]> =>
    register.transaction(
      async (tx) => {
        const now = new Date(clock.now());
        const decisions = await decideAll(tx, opens, now);
        const quiet = decisions.map((decision) =>
          decision.isForked || decision.lost ? undefined : decision,
        );
        await store(
          tx,
          quiet.filter((decision) => decision !== undefined),
          now,
        );
        return quiet;
      },
      { isShared: true },
    );
  const ownLossOf = async (tx: Tx, { claims, row, lost }: Decision) => {
    const lostHere = await losses.ownPart(tx, row, lost);
    if (lost && lostHere === null)
      log.warn(
        {
          host_id: claims.hostId,
          queue_id: claims.queueId.toHex(),
          from: String(lost.from),
          through: String(lost.through),
        },
        "the queue comes from JetStream, which stored the range",
      );
    return lostHere;
  };
  /** Returns the state of the server if anything is missing; throws `MustRecover` if a recovery may find it. */
  const stateOfMissing = async (tx: Tx, opening: Opening, unfound: string | undefined) => {
    const { isForked } = opening.decision;
    const missing = missingOf(opening);
    if (missing === "") return "";
    const state = await register.readServerState(tx);
    const named = `${missing} in ${state}${isForked ? " of a copy" : ""}`;
    if (recover && named !== unfound) throw new MustRecover(named, { isForked });
    return state;
  };
  const openAlone = ({
    open,
    isDisconnected,
    unfound,
  }: {
    open: Open;
    isDisconnected(): boolean;
    /** Names the sequences that the last recovery looked for and did not find. */
    unfound: string | undefined;
  }): Promise<Decision> =>
    register.transaction(async (tx) => {
      const now = new Date(clock.now());
      const leftIds = open.leftQueues.map(({ queueId }) => queueId);
      const leftRows =
        leftIds.length > 0 ? await register.lockLeft(tx, queueOf(open), leftIds) : [];
      const [decision] = (await decideAll(tx, [open], now)) as [Decision];
      const { isForked, row } = decision;
      if (isForked && isDisconnected()) throw new Problem("queue_forked");
      const leftLosses = leftLossesOf(open, leftRows);
      const state = await stateOfMissing(tx, { open, decision, leftLosses, leftRows }, unfound);
      const lostHere = await ownLossOf(tx, decision);
      if (!isForked)
        await store(tx, [{ ...decision, lostHere: lostHere && sequencesOf(lostHere) }], now);
      const own = await recordLoss(register, tx, queueOf(open), {
        lost: lostHere ?? undefined,
        others: isForked ? [forkEvent(row.cursor)] : [],
        now,
      });
      const settled = await losses.settleLeft(tx, { open, leftRows, leftLosses, now, state });
      await endLeft(register, tx, { open, isForked, now });
      return { ...decision, ...settled, losses: [...own, ...settled.losses], state };
    });
  const keyOf = ({ hostId }: QueueName) => hostId;
  const openInGroup = inGroups(openTogether, { keyOf, pause });
  const openInTurn = inTurn(openAlone, ({ open }) => keyOf(open));
  const findInTurn = inTurn(register.findCursor, keyOf);
  /**
   * Opens a queue; recovers first if the database may lack something. It records as lost only what the same server lacked before a recovery that
   * found nothing, and lacks still: a restore may take back what a recovery found, of this core or another one.
   */
  const openRecovered = async (open: Open, isDisconnected: () => boolean) => {
    const endsAt = clock.monotonic() + recoverMsMax;
    let unfound: string | undefined;
    let failure: unknown;
    for (;;) {
      try {
        return await openInTurn({ open, isDisconnected, unfound });
      } catch (cause) {
        if (!(cause instanceof MustRecover)) throw cause;
        // A recovery that failed may have found enough before.
        if (failure !== undefined) throw failure;
        const claims = queueClaimsOf(open, cause.isForked);
        const recovering = withTimeout(endsAt - clock.monotonic(), clock, recover?.(claims));
        const hasFound = await recovering.catch((why: unknown) => {
          failure =
            why instanceof TimedOut ? new Problem("store_unavailable", { cause: why }) : why;
          return true;
        });
        unfound = hasFound ? undefined : cause.missing;
      }
    }
  };

  return {
    /**
     * Opens a queue. Throws `queue_forked`, `frame_invalid`, `overloaded` when a thousand others wait, or `store_unavailable` while core cannot
     * know what is lost. Records no fork once `isDisconnected` returns true: nobody waits for the answer.
     */
    async open(claims: Open, isDisconnected = () => false): Promise<OpenedQueue> {
      checkOpen(claims);
      const queue = queueOf(claims);
      const sessionId = sessionOf(claims);
      if (sessionId === undefined && claims.ackedThrough === 0n)
        return { ...queue, sessionId, cursor: await findInTurn(queue) };
      const opened = claims.leftQueues.length > 0 ? undefined : await openInGroup(claims);
      const {
        isForked,
        losses: lost = [],
        cursor,
        left,
        state = "",
      } = opened ?? (await openRecovered(claims, isDisconnected));
      losses.committed(lost, { moved: isForked ? undefined : queue, state });
      if (isForked) throw new Problem("queue_forked");
      return { ...queue, sessionId, cursor, left };
    },
  };
};

/** Notes which queues were copied, and ends the others that their host has left. */
const endLeft = async <Tx>(
  register: QueueRegister<Tx>,
  tx: Tx,
  { open, isForked, now }: { open: Open; isForked: boolean; now: Date },
): Promise<void> => {
  const { hostId, leftQueues } = open;
  const idsOf = (queues: readonly Pick<Open, "queueId">[]) => queues.map(({ queueId }) => queueId);
  const left = leftQueues.filter(({ forked }) => forked);
  const forked = isForked ? [open, ...left] : left;
  if (forked.length > 0) await register.noteForks(tx, hostId, idsOf(forked));
  if (leftQueues.length > 0) await register.endLeft(tx, hostId, idsOf(leftQueues), now);
};

/** Decides what is lost of opened queues. */
const createLosses = <Tx>({
  register,
  observe,
}: Pick<QueueOpenerNeeds<Tx>, "register" | "observe">) => {
  const recordedLosses = createRecordedLosses();
  /** Returns a loss if this sink has it, null if another sink has the range. */
  const ownPart = async (tx: Tx, row: LockedCursor, lost: Loss | undefined) =>
    lost && isOfOtherSink(row, await register.findSinkChange(tx)) ? null : lost;

  /** Records what the database has lost of left queues; returns their cursors, which stay. */
  const settleLeft = async (
    tx: Tx,
    {
      open,
      leftRows,
      leftLosses,
      now,
      state,
    }: Omit<Opening, "decision"> & { now: Date; state: string },
  ) => {
    const left: LeftCursor[] = [];
    const losses: RecordedLoss[] = [];
    for (const [index, each] of open.leftQueues.entries()) {
      const { queueId, storedThrough, ackedThrough } = each;
      const row = leftRows[index] ?? null;
      const queue = { hostId: open.hostId, queueId };
      const lostHere = row && (await ownPart(tx, row, leftLosses[index]));
      // Of what core does not judge, the host keeps what it knows.
      const cursor = row === null || lostHere === null ? storedThrough : row.cursor;
      left.push({ queueId, cursor, ackedThrough });
      const unrecorded = lostHere ? recordedLosses.without(queue, lostHere, state) : undefined;
      losses.push(...(await recordLoss(register, tx, queue, { lost: unrecorded, now })));
    }
    return { left, losses };
  };

  /**
   * Counts what was recorded, once its transaction has committed, and remembers it unless the cursor of its queue has `moved` over it: the host
   * then states it again only after a restore, which takes the record back too.
   */
  const committed = (
    losses: readonly RecordedLoss[],
    { moved, state }: { moved: QueueName | undefined; state: string },
  ): void => {
    for (const lost of losses) {
      if (lost.queue.queueId !== moved?.queueId) recordedLosses.add(lost.queue, lost, state);
      countLoss(observe, lost);
    }
  };
  return { ownPart, settleLeft, committed };
};

/** Returns what an Open states of its queue, which a copy has to leave next, and of those that its host has left. */
const queueClaimsOf = (open: Open, isForked: boolean): QueueClaim[] => {
  const { hostId, queueId, ackedThrough, sentThrough = 0n, leftQueues } = open;
  const shared = { hostId, sessionIds: [open.sessionId, ...open.previousSessionIds] };
  return [
    {
      ...shared,
      queueId,
      ackedThrough,
      sentThrough: isForked ? ackedThrough : sentThrough,
      ackedBefore: ackedUnder(leftQueues),
      isLeft: isForked,
    },
    ...leftQueues.map((left, index) => ({
      ...shared,
      queueId: left.queueId,
      ackedThrough: left.storedThrough,
      sentThrough: left.storedThrough,
      ackedBefore: ackedUnder(leftQueues.slice(index + 1)),
      isLeft: true,
    })),
  ];
};

/** Rolls back an Open that would record a loss of what an object store may have. */
class MustRecover extends Error {
  readonly missing: string;
  readonly isForked: boolean;

  constructor(missing: string, { isForked }: { isForked: boolean }) {
    super("an object store may have what the database lacks");
    this.missing = missing;
    this.isForked = isForked;
  }
}

/** Returns what is lost of each left queue that core has. */
const leftLossesOf = (
  { leftQueues }: Open,
  rows: readonly (LockedCursor | null)[],
): (Loss | undefined)[] =>
  leftQueues.map(({ storedThrough }, index) => {
    const row = rows[index];
    return row
      ? lossOf(row.cursor, storedThrough, ackedUnder(leftQueues.slice(index + 1)))
      : undefined;
  });

interface Opening {
  open: Open;
  decision: Decision;
  leftLosses: readonly (Loss | undefined)[];
  leftRows: readonly (LockedCursor | null)[];
}

/** Names what is lost, and the left queues of which something was stored and that core does not have; empty if there is neither. */
const missingOf = ({ open, decision, leftLosses, leftRows }: Opening): string =>
  [
    ...[decision.lost, ...leftLosses].map(
      (lost, index) => lost && `${index}: ${lost.from} to ${lost.through}`,
    ),
    ...open.leftQueues.map(
      ({ queueId, storedThrough }, index) =>
        storedThrough > 0n && !leftRows[index] && queueId.toHex(),
    ),
  ]
    .filter((each) => each)
    .join();

type Decision = ReturnType<typeof decideOpen> & {
  claims: Open;
  row: LockedCursor;
  /** The sequences that are lost; null if another sink has them. */
  lostHere?: bigint | null | undefined;
  /** What is recorded as lost, and the cursors of the left queues. */
  losses?: readonly RecordedLoss[];
  left?: readonly LeftCursor[];
  /** The state of the server that lacks anything. */
  state?: string;
};

/** Reports whether a queue was last open in PostgreSQL before core used another sink: what was acknowledged since is in that one, and not lost. */
const isOfOtherSink = (
  { cursor, sessionId, updatedAt }: LockedCursor,
  changedAt: number | null,
): boolean =>
  changedAt !== null && ((cursor === 0n && sessionId === null) || updatedAt < changedAt);

const queueOf = ({ hostId, queueId }: Open): QueueName => ({ hostId, queueId });
/** A client need not name a session; its frames are not fenced. */
const sessionOf = ({ sessionId }: Open): Uint8Array | undefined =>
  sessionId.length > 0 ? sessionId : undefined;

/** The claims that decide whether a queue may be opened. */
type OpenClaims = Pick<Open, "sessionId" | "previousSessionIds" | "ackedThrough"> & {
  sentThrough?: bigint | undefined;
  leftQueues?: readonly LeftAcks[] | undefined;
};
type LeftAcks = Pick<LeftQueue, "ackedThrough">;

/**
 * Decides whether a queue may be opened, at which cursor, and what the database has lost of it: see the invariants above. A client
 * without a session is no fork of anything.
 */
export const decideOpen = (
  row: { cursor: bigint; sessionId: Uint8Array | null },
  { sessionId, previousSessionIds, ackedThrough, sentThrough, leftQueues = [] }: OpenClaims,
): { isForked: boolean; cursor: bigint; lost: Loss | undefined } => {
  const { sessionId: held } = row;
  const isOwn =
    sessionId.length === 0 ||
    held === null ||
    [sessionId, ...previousSessionIds].some((id) => equalBytes(id, held));
  const isForked = !isOwn || (sentThrough !== undefined && row.cursor > sentThrough);
  const lost = lossOf(row.cursor, ackedThrough, ackedUnder(leftQueues));
  return { isForked, cursor: isForked ? row.cursor : highest(row.cursor, ackedThrough), lost };
};

/** Returns the highest sequence that was acknowledged under any of these queue ids. Core may have more of them, of a copy. */
export const ackedUnder = (left: readonly LeftAcks[]): bigint =>
  left.reduce((most, { ackedThrough }) => highest(most, ackedThrough), 0n);

/**
 * Returns what is lost of a queue whose sender knows that everything through `storedThrough` was stored, and through `ackedBefore` under
 * earlier ids.
 */
export const lossOf = (
  cursor: bigint,
  storedThrough: bigint,
  ackedBefore: bigint,
): Loss | undefined => {
  const known = highest(cursor, ackedBefore);
  return storedThrough > known
    ? {
        from: known + 1n,
        through: storedThrough,
        isPlausible: storedThrough - known <= lostSequencesMax,
      }
    : undefined;
};

/** Rejects an Open whose ids or sequences are malformed, with `frame_invalid`. */
export const checkOpen = ({
  queueId,
  sessionId,
  previousSessionIds,
  ackedThrough,
  leftQueues,
}: Pick<
  Open,
  "queueId" | "sessionId" | "previousSessionIds" | "ackedThrough" | "leftQueues"
>): void => {
  const invalid = (detail: string) => new Problem("frame_invalid", { detail });
  if (sessionId.length !== 0 && sessionId.length !== queueIdBytes)
    throw invalid(`session_id must be ${queueIdBytes} bytes`);
  if (previousSessionIds.some(({ length }) => length !== queueIdBytes))
    throw invalid(`a previous session id must be ${queueIdBytes} bytes`);
  if (ackedThrough > sequenceMax) throw invalid("acked_through is above 2^63-1");
  if (leftQueues.some((left) => left.queueId.length !== queueIdBytes))
    throw invalid(`the id of a left queue must be ${queueIdBytes} bytes`);
  if (leftQueues.some(({ storedThrough }) => storedThrough > sequenceMax))
    throw invalid("stored_through is above 2^63-1");
  if (ackedUnder(leftQueues) > sequenceMax)
    throw invalid("acked_through of a left queue is above 2^63-1");
  const ids = [queueId, ...leftQueues.map((left) => left.queueId)].map((id) => id.toHex());
  if (new Set(ids).size < ids.length)
    throw invalid("left_queues names a queue twice, or the one that is opened");
};
