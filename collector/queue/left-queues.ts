import * as v from "valibot";
import type { QueueState } from "./format.ts";
import type { Checkpoint } from "./record.ts";

/**
 * A queue id that the queue has left for another one. Core is asked about it at each opening: when a database goes back, nobody else knows
 * what it has lost under this id. Checkpoints of the queue's own hold these, as the format of the database has no other place.
 */
export interface LeftQueue {
  readonly queueId: Uint8Array<ArrayBuffer>;
  /** Core had everything at or below it. */
  readonly storedThrough: number;
  /** Core had acknowledged it to this queue when it was left: `storedThrough` may be of a copy since. 0 if that is unknown. */
  readonly ackedThrough: number;
  /** Core had rejected it as a copy. */
  readonly forked: boolean;
  readonly hostId: string;
  /** Rises from one to the next. */
  readonly order: number;
}

/** The source of these checkpoints; the key is the queue id in hex. */
export const leftQueueSource = "queue.left";
const leftQueuesMax = 8;

const Saved = v.object({
  hostId: v.string(),
  storedThrough: v.number(),
  // An earlier version did not save these.
  ackedThrough: v.optional(v.number(), 0),
  forked: v.optional(v.boolean(), false),
  order: v.number(),
});

/** Returns the queue ids that were left, the newest first. */
const leftQueuesOf = (saved: ReadonlyMap<string, string>): LeftQueue[] =>
  [...saved]
    .flatMap(([key, value]) => {
      try {
        return [{ ...v.parse(Saved, JSON.parse(value)), queueId: Uint8Array.fromHex(key) }];
      } catch {
        return [];
      }
    })
    .toSorted((one, other) => other.order - one.order);

/** Returns the queue ids that a queue left as the queue of this host, the newest first. */
export const leftQueuesOfHost = (
  saved: ReadonlyMap<string, string>,
  { hostId, queueId }: Pick<QueueState, "hostId" | "queueId">,
): LeftQueue[] => {
  // A database that lost commits has the id that it left again.
  const present = queueId.toHex();
  return leftQueuesOf(saved).filter(
    (left) => left.hostId === hostId && left.queueId.toHex() !== present,
  );
};

/** Returns the checkpoint that remembers a queue id. */
export const leftCheckpoint = ({ queueId, ...saved }: LeftQueue): Checkpoint => ({
  source: leftQueueSource,
  key: queueId.toHex(),
  value: JSON.stringify(saved),
});

/** Returns the checkpoints that remember the id of a queue, which is about to be left, and forget the oldest beyond eight. */
export const leaveQueue = (
  saved: ReadonlyMap<string, string>,
  { hostId, queueId, ackedThrough }: Pick<QueueState, "hostId" | "queueId" | "ackedThrough">,
  forked = false,
): Checkpoint[] => {
  if (hostId === "") return [];
  const left = leftQueuesOf(saved);
  const isSame = (one: LeftQueue) => one.queueId.toHex() === queueId.toHex();
  const before = left.find(isSame) ?? { storedThrough: 0, ackedThrough: 0, forked };
  const known = {
    storedThrough: Math.max(ackedThrough, before.storedThrough),
    ackedThrough: Math.max(ackedThrough, before.ackedThrough),
    forked: forked || before.forked,
  };
  return [
    leftCheckpoint({ queueId, hostId, ...known, order: (left[0]?.order ?? 0) + 1 }),
    ...left
      .filter((one) => !isSame(one))
      .slice(leftQueuesMax - 1)
      .map((old) => ({ ...leftCheckpoint(old), value: null })),
  ];
};
