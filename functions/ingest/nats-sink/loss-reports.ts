import type { StreamInfo } from "@nats-io/jetstream";
import type { Database } from "#functions/store/database/database.ts";
import { queueKey } from "#functions/store/ingest/decide-batch.ts";
import { addGap, addLostRange, findRangesBehind } from "#functions/store/ingest/gaps.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import {
  countLoss,
  createQueueEventRecorder,
  createRecordedLosses,
  type GapCause,
  type Loss,
  type LossObserver,
  type QueueEvent,
  type QueueEventNeeds,
  recordLoss,
  repeatEvent,
  withoutStored,
} from "../queue-events.ts";
import {
  type AckedMessage,
  type AckedMessages,
  rangesOf,
  type StreamDifference,
} from "./acked-messages.ts";

/** Records events of queues in PostgreSQL. */
export type LossReports = ReturnType<typeof createLossReports>;

/** The differences of a queue that are not recorded yet. */
interface Waiting {
  queue: QueueName;
  lost: AckedMessage[];
  instead: Pick<AckedMessage, "first" | "last">[];
}

/** Creates the reports. */
export const createLossReports = ({
  db,
  observe,
  acked,
  cursorOf,
  ...needs
}: QueueEventNeeds & {
  db: Database;
  observe: LossObserver;
  acked: AckedMessages;
  /** Returns the cursor of a queue as the stream has it now. */
  cursorOf(queue: QueueName): Promise<bigint>;
}) => {
  const { clock, log } = needs;
  const register = { record: createQueueEventRecorder(needs), addGap };
  const recordedLosses = createRecordedLosses();
  const waiting = new Map<string, Waiting>();
  let isComparing = false;
  let wasDoubted = false;

  /** Records a loss, if any, and other events of the queue with it. */
  const record = async (
    queue: QueueName,
    lost: Loss | undefined,
    cause: GapCause,
    others: readonly QueueEvent[] = [],
  ) => {
    if (lost === undefined && others.length === 0) return;
    const recorded = await db.transaction(async (tx) => {
      const now = new Date(clock.now());
      const losses = await recordLoss(register, tx, queue, { lost, cause, others, now });
      for (const loss of losses) if (loss.isPlausible) await addLostRange(tx, queue, loss, now);
      return losses;
    });
    for (const loss of recorded) countLoss(observe, loss);
  };

  const waitingOf = (queue: QueueName) =>
    waiting.getOrInsertComputed(queueKey(queue), () => ({ queue, lost: [], instead: [] }));
  const add = ({ lost, instead }: StreamDifference) => {
    if (lost) waitingOf(lost.queue).lost.push(lost);
    if (instead) waitingOf(instead.queue).instead.push(instead);
  };
  const recordWaiting = async () => {
    for (const [key, { queue, lost, instead }] of waiting) {
      await record(queue, undefined, "replica", rangesOf(instead).map(repeatEvent));
      instead.length = 0;
      for (const range of rangesOf(lost))
        await record(queue, { ...range, isPlausible: true }, "replica");
      waiting.delete(key);
    }
  };

  /** Takes off accounts what a stream lost that ended with a message. */
  const takeOff = async ({ config, created }: StreamInfo, end: number) => {
    const position = { stream: `${config.name} ${created}`, sequence: BigInt(end) };
    for (const { from, through, ...queue } of await findRangesBehind(db, position)) {
      const cursor = await cursorOf(queue);
      const lost = withoutStored({ from, through, isPlausible: true }, cursor);
      if (lost) await addLostRange(db, queue, lost, new Date(clock.now()));
    }
  };

  return {
    record,
    /** As `record`, of a queue whose cursor stays: what its host states again is recorded once, and nothing through `storedThrough`. */
    async recordOnce(
      queue: QueueName,
      lost: Loss | undefined,
      {
        others = [],
        storedThrough = 0n,
      }: { others?: readonly QueueEvent[]; storedThrough?: bigint },
    ) {
      const unrecorded = lost && recordedLosses.without(queue, lost);
      await record(queue, unrecorded && withoutStored(unrecorded, storedThrough), "stream", others);
      if (lost) recordedLosses.add(queue, lost);
    },
    /**
     * Compares what was acknowledged with what the stream has, see `AckedMessages`, and records the differences; one comparison runs at a time.
     * Where the stream has gone back, what it lost is taken off accounts, also of hosts that never come back to say so.
     */
    async compare(info: StreamInfo, mayDiffer: boolean) {
      wasDoubted ||= mayDiffer;
      if (isComparing) return;
      isComparing = true;
      try {
        const isDoubted = wasDoubted;
        const differences = await acked.findDifferences(info, isDoubted);
        for (const difference of differences) add(difference);
        await recordWaiting();
        // Others may have been stored since.
        const ends = differences.filter(({ lost }) => lost === undefined).map(({ seq }) => seq - 1);
        if (isDoubted || ends.length > 0)
          await takeOff(info, Math.min(...ends, info.state.last_seq));
        if (isDoubted) wasDoubted = false;
      } catch (err) {
        log.warn(
          { err },
          "what the stream acknowledged could not be compared with what it has; core tries again",
        );
      } finally {
        isComparing = false;
      }
    },
  };
};
