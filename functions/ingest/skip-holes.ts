import { queueKey } from "../store/ingest/decide-batch.ts";
import { addGap } from "../store/ingest/gaps.ts";
import { lockCursors, type QueueName, updateCursors } from "../store/ingest/queues.ts";
import type { AdopterNeeds } from "./adopt-objects.ts";
import type { PlaceNeeds } from "./adopted-frames.ts";
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
}

type SkipNeeds = AdopterNeeds & PlaceNeeds;

/** Moves cursors over holes that were committed, and records them as lost; returns whether it moved any. */
export const skipHoles = async (needs: SkipNeeds, holes: readonly Hole[]): Promise<boolean> => {
  const record = createQueueEventRecorder(needs);
  let isMoved = false;
  for (const { queue, through, committed } of holes) {
    if (through > committed) continue;
    const losses = await needs.db.transaction(async (tx): Promise<RecordedLoss[]> => {
      const now = new Date(needs.clock.now());
      const [row] = await lockCursors(tx, [queue], now);
      if (row === undefined || row.cursor >= through) return [];
      isMoved = true;
      const before =
        row.sessionId === null && row.cursor === 0n ? endOfEarlier(needs, queue) : row.cursor;
      const lost = lossOf(before, through);
      const moved = { ...queue, cursor: through, sessionId: undefined };
      await updateCursors(tx, [{ ...moved, lost: lost ? sequencesOf(lost) : 0n }], now);
      return recordLoss({ record, addGap }, tx, queue, { lost, now });
    });
    for (const loss of losses) countLoss(needs.observe, loss);
  }
  return isMoved;
};

const lossOf = (before: bigint | undefined, through: bigint): Loss | undefined =>
  before === undefined || before >= through
    ? undefined
    : { from: before + 1n, through, isPlausible: true };

/** Returns where the sequences of an unknown queue begin that are not of an earlier id of its host's; undefined if the host has not said so. */
const endOfEarlier = ({ claims, log }: SkipNeeds, queue: QueueName): bigint | undefined => {
  const [claim] = claims.get(queueKey(queue)) ?? [];
  if (claim === undefined)
    log.warn(
      { host_id: queue.hostId, queue_id: queue.queueId.toHex() },
      "the beginning of a queue is in no object: it is lost, unless the host had another queue before",
    );
  return claim?.ackedBefore;
};
