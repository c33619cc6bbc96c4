import { highest, lowest } from "#kit/bigint.ts";
import type { ObjectQueue } from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import { queueKey } from "../store/ingest/decide-batch.ts";
import { addGap } from "../store/ingest/gaps.ts";
import type { UnsettledObject } from "../store/ingest/objects.ts";
import { lockCursors, type QueueName, updateCursors } from "../store/ingest/queues.ts";
import type { AdopterNeeds } from "./adopt-objects.ts";
import { type PlacedQueue, type PlaceNeeds, sessionOf } from "./adopted-frames.ts";
import {
  countLoss,
  createQueueEventRecorder,
  type Loss,
  type RecordedLoss,
  recordLoss,
  sequencesOf,
} from "./queue-events.ts";

/** A range of a queue that no object has. */
export interface Hole {
  queue: QueueName;
  /** An object continues the queue behind it. */
  through: bigint;
  /** Core had committed the queue through it. */
  committed: bigint;
  /** The database has known for a day what is behind it: the host had the time to claim the queue. */
  isLong: boolean;
  /** The session that the queue is given to: the one of what is behind the hole. */
  sessionId: Uint8Array | undefined;
}

interface WaitingParts {
  /** The first one continues the queue from there. */
  from: bigint;
  /** Core had committed the queue through it. */
  committed: bigint;
}

/** The queues that no object continues, found by a pass over the objects. */
export interface FoundHoles {
  /** Where queues may continue behind what no object has. */
  holes: Map<string, Hole>;
  /** Parts of queues that wait for their hosts, or for other queues of their objects. */
  waitingParts: Map<string, WaitingParts>;
}

/** More holes wait for the next pass. */
const queuesMax = 10_000;

/** Returns the holes of which no object has anything. */
export const openHoles = ({ holes, waitingParts }: FoundHoles): Hole[] =>
  waitingParts.size === queuesMax
    ? []
    : [...holes].flatMap(([key, hole]) => {
        const waiting = waitingParts.get(key);
        if (waiting === undefined) return [hole];
        const committed = highest(hole.committed, waiting.committed);
        return waiting.from < hole.through ? [] : [{ ...hole, committed }];
      });

/** Notes parts of queues that wait. */
export const noteWaiting = (
  { waitingParts }: FoundHoles,
  parts: readonly PlacedQueue[],
  object: UnsettledObject,
) => {
  for (const { queue } of parts) {
    const key = queueKey(queue);
    const known = waitingParts.get(key);
    if (known === undefined && waitingParts.size === queuesMax) continue;
    const { previousCursor } = queue;
    const { from = previousCursor, committed = 0n } = known ?? {};
    waitingParts.set(key, {
      from: lowest(from, previousCursor),
      committed: highest(committed, committedBefore(queue, object)),
    });
  }
};

/** Returns through where a queue was committed before a part of it; 0 if the part does not say so. */
const committedBefore = (
  { settled, previousCursor }: ObjectQueue,
  { isEnded }: UnsettledObject,
): bigint => (isEnded && settled ? previousCursor : 0n);

/** Notes that nothing before an object's part of a queue was found yet, and through where that was committed. */
export const noteHole = (
  { holes }: FoundHoles,
  { queue, ackedThrough }: PlacedQueue,
  object: UnsettledObject,
) => {
  if (!object.isEnded && ackedThrough === 0n) return;
  const key = queueKey(queue);
  const known = holes.get(key);
  if (known === undefined && holes.size === queuesMax) return;
  const { hostId, queueId, previousCursor } = queue;
  const isFirst = known === undefined || previousCursor < known.through;
  holes.set(key, {
    queue: { hostId, queueId },
    through: isFirst ? previousCursor : known.through,
    sessionId: isFirst ? sessionOf(queue) : known.sessionId,
    committed: highest(
      highest(known?.committed ?? 0n, ackedThrough),
      committedBefore(queue, object),
    ),
    isLong: object.isLong || known?.isLong === true,
  });
};

type SkipNeeds = AdopterNeeds & PlaceNeeds;

/**
 * Moves cursors over holes that were committed, and records them as lost; returns whether it moved any. Of a queue that the database does not know,
 * the hole waits a day for the host's claim: sequences of earlier ids are not lost. Without a claim, all of it is recorded.
 */
export const skipHoles = async (needs: SkipNeeds, holes: readonly Hole[]): Promise<boolean> => {
  const record = createQueueEventRecorder(needs);
  let isMoved = false;
  for (const hole of holes) {
    const { queue, through, committed, sessionId } = hole;
    if (through > committed) continue;
    const losses = await needs.db.transaction(async (tx): Promise<RecordedLoss[]> => {
      const now = new Date(needs.clock.now());
      const [row] = await lockCursors(tx, [queue], now);
      if (row === undefined || row.cursor >= through) return [];
      const before =
        row.sessionId === null && row.cursor === 0n ? endOfEarlier(needs, hole) : row.cursor;
      if (before === undefined) return [];
      isMoved = true;
      const lost = lossOf(before, through);
      const moved = { ...queue, cursor: through, sessionId };
      await updateCursors(tx, [{ ...moved, lost: lost ? sequencesOf(lost) : 0n }], now);
      return recordLoss({ record, addGap }, tx, queue, { lost, now });
    });
    for (const loss of losses) countLoss(needs.observe, loss);
  }
  return isMoved;
};

const lossOf = (before: bigint, through: bigint): Loss | undefined =>
  before >= through ? undefined : { from: before + 1n, through, isPlausible: true };

/** Returns through where the sequences of an unknown queue are of earlier ids of its host's; undefined while the host may still say so. */
const endOfEarlier = ({ claims }: SkipNeeds, { queue, isLong }: Hole): bigint | undefined => {
  const [claim] = claims.get(queueKey(queue)) ?? [];
  return claim?.ackedBefore ?? (isLong ? 0n : undefined);
};
