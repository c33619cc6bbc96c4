import { LRUCache } from "lru-cache";
import { type Clock, hourMs } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";

import { type AuditEntry, recordAudits } from "../domain/audit/audit-log.ts";
import { findIdentityByName } from "../store/certificate/identities.ts";
import type { Executor } from "../store/database/database.ts";
import { queueKey } from "../store/ingest/decide-batch.ts";
import type { QueueName } from "../store/ingest/queues.ts";

/** An event of a queue, for the log and the audit log. */
export interface QueueEvent {
  action: "queue.forked" | "ingest.gap";
  reason: string;
  reasonCode: string;
  details: Record<string, number | string>;
}

/** The dependencies of recording events. */
export interface QueueEventNeeds {
  clock: Clock;
  entropy: Entropy;
  log: { warn(fields: object, message: string): void };
}

/** Forks and gaps of one host that this core records in an hour: a caller must not fill the audit log. */
const eventsOfHostMax = 100;

/**
 * Creates the function that logs the events of a queue and writes them to the audit log, within a bound for each host. It returns those
 * that it has written.
 */
export const createQueueEventRecorder = ({
  clock,
  entropy,
  log,
}: QueueEventNeeds): ((
  tx: Executor,
  queue: QueueName,
  events: readonly QueueEvent[],
) => Promise<readonly QueueEvent[]>) => {
  const recorded = new LRUCache<string, { since: number; events: number }>({
    maxSize: 10_000,
    sizeCalculation: () => 1,
  });

  /** Reports whether an event of this host may be recorded, and counts it. */
  const mayRecord = (hostId: string): boolean => {
    const now = clock.monotonic();
    let window = recorded.get(hostId);
    if (window === undefined || now - window.since >= hourMs) {
      window = { since: now, events: 0 };
      recorded.set(hostId, window);
    }
    return ++window.events <= eventsOfHostMax;
  };

  return async (tx, queue, events) => {
    const queue_id = queue.queueId.toHex();
    for (const { action, reason, details } of events)
      log.warn({ action, host_id: queue.hostId, queue_id, ...details }, reason);
    const kept = events.filter(() => mayRecord(queue.hostId));
    if (kept.length === 0) return kept;
    const identity = await findIdentityByName(tx, queue.hostId);
    const id = identity?.id ?? queue.hostId;
    const actor = { type: "collector", id, display: queue.hostId } as const;
    const target = { type: identity ? "collector_identity" : "host", id };
    const entries = kept.map(
      ({ details, ...event }): AuditEntry => ({
        ...event,
        actor,
        target,
        outcome: "failure",
        details: { host_id: queue.hostId, queue_id, ...details },
      }),
    );
    await recordAudits(tx, { clock, entropy }, entries);
    return kept;
  };
};

/** Exact in JSON up to 2^53, else as text. */
const sequenceOf = (sequence: bigint): number | string =>
  sequence <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(sequence) : String(sequence);

/** A range that a host says was acknowledged, and that the sink does not have. */
export interface Loss {
  from: bigint;
  through: bigint;
  /** Whether the host can have sent so much; what is not plausible is recorded, and added to no total. */
  isPlausible: boolean;
}

/** Returns how many sequences a range has. */
export const sequencesOf = ({ from, through }: Loss): bigint => through - from + 1n;

/** Returns what of a range is above `cursor`. */
const withoutStored = (lost: Loss, cursor: bigint): Loss | undefined => {
  if (cursor >= lost.through) return undefined;
  return cursor < lost.from ? lost : { ...lost, from: cursor + 1n };
};

const recordedLossesMax = 10_000;

/**
 * Creates the losses that this core has recorded of queues whose cursors stay, empty: their hosts may state them again. A database in another
 * `state` may have lost the record.
 */
export const createRecordedLosses = () => {
  const recorded = new LRUCache<string, Loss & { state: string }>({
    maxSize: recordedLossesMax,
    sizeCalculation: () => 1,
  });
  const findKnown = (queue: QueueName, state: string) => {
    const known = recorded.get(queueKey(queue));
    return known?.state === state ? known : undefined;
  };

  return {
    /** Returns what of a loss is not recorded yet. */
    without(queue: QueueName, lost: Loss, state: string): Loss | undefined {
      const known = findKnown(queue, state);
      return known?.from === lost.from ? withoutStored(lost, known.through) : lost;
    },
    /** Call it once the record is committed. */
    add(queue: QueueName, lost: Loss, state: string): void {
      const known = findKnown(queue, state);
      // What is recorded above an earlier loss continues it.
      const from = known !== undefined && known.through + 1n === lost.from ? known.from : lost.from;
      recorded.set(queueKey(queue), { ...lost, from, state });
    },
  };
};

/** The event of a range that was acknowledged and that core no longer has. */
const gapEvent = (loss: Loss): QueueEvent => ({
  action: "ingest.gap",
  ...(loss.isPlausible
    ? {
        reason:
          "the database lost envelopes that it had acknowledged: it was restored from a backup",
        reasonCode: "database_restored",
      }
    : {
        reason: "the host claims to have lost more than it can have sent",
        reasonCode: "implausible_claim",
      }),
  details: { from: sequenceOf(loss.from), through: sequenceOf(loss.through) },
});

/** Receives how many sequences a host has lost, those without an envelope included, or that its claim is not plausible. */
export interface LossObserver {
  gap(sequences: bigint): void;
  implausibleGap(): void;
}

/** A loss as it was recorded. */
export type RecordedLoss = Loss & { queue: QueueName };

/** Where losses are recorded, in transactions of `Tx`. */
export interface LossRegister<Tx> {
  /** Writes events to the audit log, within its bound for each host, and returns those that it has written. */
  record(tx: Tx, queue: QueueName, events: readonly QueueEvent[]): Promise<readonly QueueEvent[]>;
  /** Adds a lost range to what the host has lost. */
  addGap(tx: Tx, hostId: string, sequences: bigint, now: Date): Promise<void>;
}

/** Records a loss of a queue, if any, and other events of it. Returns the loss; it is plausible only if the audit log has it. */
export const recordLoss = async <Tx>(
  register: LossRegister<Tx>,
  tx: Tx,
  queue: QueueName,
  { lost, others = [], now }: { lost: Loss | undefined; others?: readonly QueueEvent[]; now: Date },
): Promise<RecordedLoss[]> => {
  const event = lost && gapEvent(lost);
  const events = [...(event ? [event] : []), ...others];
  const recorded = events.length > 0 ? await register.record(tx, queue, events) : [];
  if (lost === undefined || event === undefined) return [];
  const isPlausible = lost.isPlausible && recorded.includes(event);
  if (isPlausible) await register.addGap(tx, queue.hostId, sequencesOf(lost), now);
  return [{ ...lost, isPlausible, queue }];
};

/** Counts a loss once the transaction that recorded it has committed. */
export const countLoss = (observe: LossObserver, lost: Loss): void => {
  if (lost.isPlausible) observe.gap(sequencesOf(lost));
  else observe.implausibleGap();
};

/** The event of a queue of which two forks have sent. */
export const forkEvent = (cursor: bigint): QueueEvent => ({
  action: "queue.forked",
  reason:
    "a copy of the queue has sent: a disk was restored or a machine cloned; envelopes acknowledged since may be stored twice, under two queue ids",
  reasonCode: "queue_forked",
  details: { cursor: sequenceOf(cursor) },
});
