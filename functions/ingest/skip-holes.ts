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
  /** The database has known for a day what is behind it: the host had the time to claim the queue. */
  isLong: boolean;
}

type SkipNeeds = AdopterNeeds & PlaceNeeds;

/**
 * Moves cursors over holes that were committed, and records them as lost; returns whether it moved any. Of a queue that the database does not know,
 * the hole waits a day for the host's claim: sequences of earlier ids are not lost. Without a claim, all of it is recorded.
 */
export const skipHoles = async (needs: SkipNeeds, holes: readonly Hole[]): Promise<boolean> => {
  const record = createQueueEventRecorder(needs);
  let isMoved = false;
  for (const hole of holes) {
    const { queue, through, committed } = hole;
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
      const moved = { ...queue, cursor: through, sessionId: undefined };
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
