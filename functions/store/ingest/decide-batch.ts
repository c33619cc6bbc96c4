/** Decides what a batch of frames stores, and how it moves the cursors of their queues: see the invariants of commit-batch.ts. */
import type { BlockToStore } from "./block-rows.ts";
import { type EnvelopeRun, joinRuns, rawBytesOf } from "./envelope-run.ts";
import { HourCounts } from "./hours.ts";
import type { QueueName } from "./queues.ts";
import { cutRun } from "./stored-envelope.ts";

/** A checked frame: its envelopes rise in sequence, above `previousSequence` and up to `lastSequence`. */
export interface FrameToCommit extends QueueName {
  /** The session that opened the queue; absent for a client without sessions, whose frames are not fenced. */
  sessionId?: Uint8Array | undefined;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  /** The envelopes to store. */
  run: EnvelopeRun;
  previousSequence: bigint;
  /** The last sequence that the frame consumes, stored or not. Equal to `previousSequence` for an empty frame. */
  lastSequence: bigint;
  /** The sequences that it consumes without storing them; absent for none. */
  unstored?: { rejected: readonly bigint[]; discarded: readonly bigint[] } | undefined;
}

/** The sequences of a queue by outcome. */
interface SequenceCounts {
  stored: number;
  rejected: number;
  discarded: number;
}

/** The outcome of a frame: `cursor` is its queue's after the commit, `before` its queue's just before this frame. */
export interface FrameOutcome {
  outcome: "committed" | "sequence_gap" | "session_superseded";
  before: bigint;
  cursor: bigint;
  storedRows: number;
  /** The bytes of the stored payloads. */
  storedBytes: number;
}

/** A queue, as a transaction finds and changes it. */
export interface BatchQueue {
  hostId: string;
  queueHex: string;
  cursor: bigint;
  initial: bigint;
  /** In hex; empty while no session has opened the queue. */
  session: string;
  isNew: boolean;
  /** The sequences that the batch adds. */
  counts: SequenceCounts;
}

/** Returns a unique key of a queue: host ids contain no NUL. */
export const queueKey = ({ hostId, queueId }: QueueName): string =>
  queueKeyOfHex(hostId, queueId.toHex());

/** Returns the key of a queue whose id is in hex. */
export const queueKeyOfHex = (hostId: string, queueHex: string): string => `${hostId}\0${queueHex}`;

/** Returns the queues of a batch at their expected cursors; those without an expected one as new. */
export const queuesIn = (
  frames: readonly FrameToCommit[],
  expected?: ReadonlyMap<string, bigint>,
) => {
  const queues = new Map<string, BatchQueue>();
  for (const { hostId, queueId, sessionId } of frames) {
    const key = queueKey({ hostId, queueId });
    const known = queues.get(key);
    // Frames without a session may come first.
    if (known && sessionId && known.session === "") known.session = sessionId.toHex();
    if (known) continue;
    const cursor = expected?.get(key);
    const initial = cursor ?? 0n;
    const session = sessionId?.toHex() ?? "";
    queues.set(key, {
      hostId,
      queueHex: queueId.toHex(),
      cursor: initial,
      initial,
      session,
      isNew: cursor === undefined,
      counts: { stored: 0, rejected: 0, discarded: 0 },
    });
  }
  return queues;
};

/** Reports whether a frame is of the session that has opened its queue. */
export const isOfSession = ({ sessionId }: FrameToCommit, queue: BatchQueue | undefined): boolean =>
  sessionId === undefined || queue?.session === sessionId.toHex();

/** Decides the outcome of each frame, and moves the queues' cursors accordingly. `isInObject`: the data of the blocks go to an object. */
export const decideBatch = (
  frames: readonly FrameToCommit[],
  queues: ReadonlyMap<string, BatchQueue>,
  { codec, isInObject }: { codec: Parameters<typeof cutRun>[2]; isInObject: boolean },
) => {
  const stored = new Map<BatchQueue, FrameToCommit[]>();
  const hours = new HourCounts();
  const outcomes = frames.map((frame): FrameOutcome => {
    const queue = queues.get(queueKey(frame));
    const before = queue?.cursor ?? 0n;
    const refused = { before, cursor: before, storedRows: 0, storedBytes: 0 };
    if (queue === undefined || frame.previousSequence > before)
      return { outcome: "sequence_gap", ...refused };
    if (!isOfSession(frame, queue))
      // A row without a session is not the opened one: the database was restored, or the row was trimmed.
      return { outcome: queue.session === "" ? "sequence_gap" : "session_superseded", ...refused };
    if (frame.lastSequence <= before) return { outcome: "committed", ...refused };
    const run = cutRun(frame.run, before, codec);
    if (run.count > 0) {
      const framesOfQueue = stored.get(queue) ?? [];
      stored.set(queue, framesOfQueue);
      framesOfQueue.push({ ...frame, run });
      hours.add(frame.hostId, run.kinds);
    }
    queue.cursor = frame.lastSequence;
    queue.counts.stored += run.count;
    const { rejected = [], discarded = [] } = frame.unstored ?? {};
    queue.counts.rejected += countAbove(rejected, before);
    queue.counts.discarded += countAbove(discarded, before);
    const figures = { storedRows: run.count, storedBytes: run.payloadBytes };
    return { outcome: "committed", before, cursor: frame.lastSequence, ...figures };
  });
  const blocks = [...stored.values()].flatMap((some) => blocksOf(some, isInObject));
  return { outcomes, blocks, hours };
};

const countAbove = (sequences: readonly bigint[], cursor: bigint) =>
  sequences.length === 0 ? 0 : sequences.filter((sequence) => sequence > cursor).length;

/** Up to how many bytes frames of a batch become one block: as they are, and as their sender compressed them, which rows keep apart. */
const joinedBytesMax = { plain: 1024 * 1024, compressedInObject: 4 * 1024 * 1024 };

const never = -1;

type FrameGroup = [FrameToCommit, ...FrameToCommit[]];

/** Returns the blocks of one queue's frames. */
const blocksOf = (frames: readonly FrameToCommit[], isInObject: boolean): BlockToStore[] =>
  groupFrames(frames, isInObject).map(([first, ...others]) => {
    const { hostId, queueId, receivedAt } = others.at(-1) ?? first;
    const run = joinRuns([first.run, ...others.map((frame) => frame.run)]);
    return { hostId, queueId, receivedAt, run };
  });

const groupFrames = (frames: readonly FrameToCommit[], isInObject: boolean): FrameGroup[] => {
  const bytesMaxOf = ({ placed, compressed }: EnvelopeRun): number => {
    if (placed) return never;
    if (!compressed) return joinedBytesMax.plain;
    return isInObject ? joinedBytesMax.compressedInObject : never;
  };
  const groups: FrameGroup[] = [];
  let bytes = 0;
  let bytesMax = never;
  for (const frame of frames) {
    const added = rawBytesOf(frame.run);
    const ownMax = bytesMaxOf(frame.run);
    const group = groups.at(-1);
    const isJoined = group !== undefined && ownMax === bytesMax && bytes + added <= bytesMax;
    bytes = isJoined ? bytes + added : added;
    bytesMax = ownMax;
    if (isJoined) group.push(frame);
    else groups.push([frame]);
  }
  return groups;
};
