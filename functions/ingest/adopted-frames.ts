/** Places the queues of an object that is adopted, and turns their blocks into frames, whose data stay in the object or are read from it. */
import { ObjectChanged, type ObjectStore } from "#functions/objects/object-store.ts";
import { highest } from "#kit/bigint.ts";
import { equalBytes } from "#kit/bytes.ts";
import { BlockEncoding } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type { ObjectBlock, ObjectQueue } from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import type { Database } from "../store/database/database.ts";
import { type FrameToCommit, queueKey } from "../store/ingest/decide-batch.ts";
import { type EnvelopeRun, emptyRun, runAbove } from "../store/ingest/envelope-run.ts";
import { encodeReference } from "../store/ingest/object-reference.ts";
import type { NamedObject, UnsettledObject } from "../store/ingest/objects.ts";
import { findCursors, type QueueName, takeQueue } from "../store/ingest/queues.ts";
import { type BlockCodec, isOfDigest } from "../store/ingest/stored-envelope.ts";

/** A queue of an object, and where it is in the database. */
export interface PlacedQueue {
  queue: ObjectQueue;
  cursor: bigint;
  /** The session of the queue in the database. Its frames are of the object's, which the queue is given to. */
  held: Uint8Array | null;
  /** It is of a session that is not the queue's, as far as core knows. */
  isFenced: boolean;
  /** Through where the host knows that core had acknowledged the queue, where that is the queue's as the host knows it. */
  ackedThrough: bigint;
}

/** A queue as its host describes it when it opens it. */
export interface QueueClaim extends QueueName {
  /** The sessions that the queue has had, as far as the host knows them. */
  sessionIds: readonly Uint8Array[];
  /** Everything through it was acknowledged. */
  ackedThrough: bigint;
  /** The last sequence that the host has sent of the queue; 0 if it does not say. */
  sentThrough: bigint;
  /** Through it, sequences are of earlier ids of the host's queue. */
  ackedBefore: bigint;
  /** The host has left the queue, and so names the sessions of another one; or it has to leave it, as a copy. */
  isLeft: boolean;
}

/** The parts of core that know where queues are. */
export interface PlaceNeeds {
  db: Database;
  /** By queue. */
  claims: ReadonlyMap<string, readonly QueueClaim[]>;
}

/**
 * Places what an object has of queues. Fences what is of another session than the queue's, except where nothing else can continue the queue,
 * and after a day where the object has something that the queue has in part. A part ahead of its queue is not fenced then either: its predecessor
 * is missing.
 */
export const placeQueues = async (
  { db, claims }: PlaceNeeds,
  queues: readonly ObjectQueue[],
  { isRecent, isLong }: Pick<UnsettledObject, "isRecent" | "isLong">,
): Promise<PlacedQueue[]> => {
  const rows = new Map((await findCursors(db, queues)).map((row) => [queueKey(row), row]));
  return queues.map((queue) => {
    const key = queueKey(queue);
    const { cursor = 0n, sessionId: held = null } = rows.get(key) ?? {};
    const known = (claims.get(key) ?? []).filter((claim) => isWithin(claim, queue));
    const own = known.filter((claim) => isOfHistory(claim, held, queue.sessionId));
    const ackedThrough = ackedOf(own);
    const placed = { queue, cursor, held };
    const isAhead = queue.previousCursor > cursor;
    const left = known.filter(({ isLeft }) => isLeft);
    // A queue that was left may have become that session's by what was adopted before.
    if (!isForeign(placed) && !isAhead)
      return { ...placed, isFenced: false, ackedThrough: ackedOf([...own, ...left]) };
    if (!isRecent || ackedThrough > 0n || !isForeign(placed) || (isLong && isAhead))
      return { ...placed, isFenced: false, ackedThrough };
    const mayTake = held === null || isLong || left.length > 0;
    const isNext = isLong ? !isAhead : queue.previousCursor === cursor;
    const isFenced = !(mayTake && isNext && queue.cursor > cursor);
    return { ...placed, isFenced, ackedThrough: isFenced ? 0n : ackedOf(left) };
  });
};

/** Returns the session of what an object has of a queue; undefined for a client that names none. */
export const sessionOf = ({ sessionId }: ObjectQueue) =>
  sessionId.length > 0 ? sessionId : undefined;

/** Reports whether what an object has of a queue is of another session than the queue's. */
const isForeign = ({ queue: { sessionId }, held }: Pick<PlacedQueue, "queue" | "held">): boolean =>
  sessionId.length > 0 && !(held !== null && equalBytes(held, sessionId));

/**
 * Gives queues to the sessions of an object, so that whoever continues another copy finds it forked; returns false if one has moved or changed
 * its session meanwhile.
 */
export const takeQueues = async (
  { db }: Pick<PlaceNeeds, "db">,
  queues: readonly PlacedQueue[],
): Promise<boolean> => {
  for (const { queue, cursor, held } of queues.filter(isForeign))
    if (!(await takeQueue(db, queue, { cursor, held, taken: queue.sessionId }))) return false;
  return true;
};

/** Reports whether what an object has of a queue is the claiming host's: begun by what it knows to be acknowledged, and sent by it. */
const isWithin = ({ ackedThrough, sentThrough }: QueueClaim, queue: ObjectQueue): boolean =>
  queue.previousCursor < ackedThrough && queue.cursor <= highest(ackedThrough, sentThrough);

/** Reports whether sessions are of the history that a host claims. A fork, whose history lacks the queue's session, claims nothing. */
const isOfHistory = (
  { sessionIds }: QueueClaim,
  ...sessions: readonly (Uint8Array | null)[]
): boolean =>
  sessions.every(
    (id) => id === null || id.length === 0 || sessionIds.some((each) => equalBytes(each, id)),
  );

/** Returns through where core had acknowledged a queue, by claims; 0 without any. */
const ackedOf = (claims: readonly QueueClaim[]): bigint =>
  claims.reduce((most, { ackedThrough }) => highest(most, ackedThrough), 0n);

/** The parts of core that read an object. */
export interface FrameNeeds {
  store: Pick<ObjectStore, "read">;
  codec: Pick<BlockCodec, "decompress" | "digest">;
}

/** Sequences that were rejected or discarded are counted one by one. */
const unstoredMax = 1_000_000;

/**
 * Returns what an object has of a queue as frames that name the object; those that the cursor covers in part, or all if it `isCopied`, have their
 * data. Throws `ObjectMissing` and `ObjectChanged` for data that it cannot read.
 */
export const framesOf = async (
  needs: FrameNeeds,
  object: NamedObject,
  { queue, cursor, isCopied }: PlacedQueue & { isCopied: boolean },
): Promise<FrameToCommit[]> => {
  const { hostId, queueId } = queue;
  const sessionId = sessionOf(queue);
  const frames: FrameToCommit[] = [];
  let previousSequence = queue.previousCursor;
  const add = (lastSequence: bigint, receivedAtMs: bigint, run: EnvelopeRun) => {
    const shared = { hostId, queueId, sessionId, receivedAt: Number(receivedAtMs) };
    frames.push({ ...shared, previousSequence, lastSequence, run });
    previousSequence = lastSequence;
  };
  for (const block of queue.blocks) {
    const isBelow = block.lastSequence <= cursor;
    const isRead = !isBelow && (isCopied || block.firstSequence <= cursor);
    const run = isRead
      ? await readAbove(needs, object, { block, cursor })
      : placedRun(block, referenceOf(object, block));
    add(block.lastSequence, block.receivedAtMs, run);
  }
  if (previousSequence < queue.cursor || frames.length === 0) add(queue.cursor, 0n, emptyRun());
  // The footer has only counts: of a range that is stored in part, the rejected and discarded sequences are unknown.
  const last = frames.at(-1);
  if (last && cursor === queue.previousCursor) {
    const repeated = (count: number) =>
      Array<bigint>(Math.min(count, unstoredMax)).fill(queue.cursor);
    last.unstored = { rejected: repeated(queue.rejected), discarded: repeated(queue.discarded) };
  }
  return frames;
};

const referenceOf = (
  { id, nonce, storeId }: NamedObject,
  { encoding, offset, length }: ObjectBlock,
): Uint8Array => encodeReference({ encoding, storeId, objectId: id, nonce, offset, length });

const figuresOf = (block: ObjectBlock) => ({
  count: block.envelopes,
  payloadBytes: block.payloadBytes,
  firstSequence: block.firstSequence,
  lastSequence: block.lastSequence,
  kinds: new Map(block.kinds.map(({ kind, ...counted }) => [kind, counted])),
  observed:
    block.observedFrom === undefined
      ? undefined
      : { from: Number(block.observedFrom), to: Number(block.observedTo) },
});

const placedRun = (block: ObjectBlock, reference: Uint8Array): EnvelopeRun => ({
  ...figuresOf(block),
  bytes: new Uint8Array(),
  rawBytes: block.rawBytes,
  placed: { reference, digest: block.digest },
});

/** Reads a block, and returns its envelopes above the cursor. */
const readAbove = async (
  { store, codec }: FrameNeeds,
  { name }: NamedObject,
  { block, cursor }: { block: ObjectBlock; cursor: bigint },
): Promise<EnvelopeRun> => {
  const { offset, length, digest, encoding, rawBytes } = block;
  const data = await store.read(name, { offset, length });
  const isZstd = encoding === BlockEncoding.ZSTD;
  const bytes = isZstd ? codec.decompress(data, rawBytes, true) : data;
  if (bytes === null || !isOfDigest(data, digest, codec)) throw new ObjectChanged(name);
  return runAbove({ bytes }, cursor);
};
