import type { StreamInfo } from "@nats-io/jetstream";
import type { Database } from "#functions/store/database/database.ts";
import { queueKey } from "#functions/store/ingest/decide-frames.ts";
import { addGap, addLostRange, findRangesBehind } from "#functions/store/ingest/gaps.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import {
  createQueueEventRecorder,
  createRecordedLosses,
  type GapCause,
  gapEvent,
  type Loss,
  type LossObserver,
  type QueueEvent,
  type QueueEventNeeds,
  repeatEvent,
  sequencesOf,
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

/** Makes the reports. */
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
  const recordEvents = createQueueEventRecorder(needs);
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
    const event = lost && gapEvent(lost, cause);
    const isPlausible = await db.transaction(async (tx) => {
      const recorded = await recordEvents(tx, queue, [...(event ? [event] : []), ...others]);
      if (!lost?.isPlausible || event === undefined || !recorded.includes(event)) return false;
      const at = new Date(clock.now());
      await addGap(tx, queue.hostId, sequencesOf(lost), at);
      await addLostRange(tx, queue, lost, at);
      return true;
    });
    if (lost && isPlausible) observe.gap(sequencesOf(lost));
    else if (lost) observe.implausibleGap();
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
