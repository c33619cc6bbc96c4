/**
 * Adopts objects whose blocks the database does not have: those of a core that failed before its commit, and all that were written after
 * the state to which a database was restored. Invariants:
 * - An object's name is consumed in the transaction that stores its rows, and only if the cursors are where its footer was compared with
 *   them. So each envelope is stored once, whichever cores adopt, commit or receive it again meanwhile.
 * - An object waits until each of its queues has come to it: objects are adopted in the order of their commits, whatever their names.
 * - A cursor skips what no object has only where a footer says that it was committed; the rest is still at its host. One core adopts at a time,
 *   so that none takes what another is about to adopt for missing.
 * - Frames of a session that is not the queue's are not adopted, except of an object that is newer than the state of the database: its
 *   sessions are newer too.
 * - An object is marked for deletion only when the cursors cover all that it has. One of which something is left stays until retention.
 */
import type { Client } from "pg";
import {
  ObjectChanged,
  ObjectMissing,
  type ObjectStore,
  objectIdOf,
  objectNameOf,
  telemetryPrefix,
} from "#functions/objects/object-store.ts";
import { equalBytes } from "#kit/bytes.ts";
import { errorCode } from "#kit/describe-error.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { BlockEncoding } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type {
  ObjectBlock,
  ObjectFooter,
  ObjectQueue,
} from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import type { Database } from "../store/database/database.ts";
import { commitBatchAhead, invalidName } from "../store/ingest/commit-batch.ts";
import { destroyClient } from "../store/ingest/copy-transaction.ts";
import { type FrameToCommit, queueKey } from "../store/ingest/decide-batch.ts";
import { type EnvelopeRun, emptyRun, runAbove } from "../store/ingest/envelope-run.ts";
import { addGap } from "../store/ingest/gaps.ts";
import { readFooter } from "../store/ingest/object-footer.ts";
import { encodeReference } from "../store/ingest/object-reference.ts";
import {
  type DrawnObject,
  findLastDrawnId,
  findOldestDrawnId,
  findUnsettledObjects,
  findWaitingObjects,
  keepObject,
  markDrawnObjects,
  type NamedObject,
} from "../store/ingest/objects.ts";
import { findCursors, lockCursors, type QueueName, updateCursors } from "../store/ingest/queues.ts";
import { type BlockCodec, isOfDigest } from "../store/ingest/stored-envelope.ts";
import type { WrittenStore } from "./object-writer.ts";
import {
  countLoss,
  createQueueEventRecorder,
  type LossObserver,
  type QueueEventNeeds,
  recordLoss,
  sequencesOf,
} from "./queue-events.ts";

/** Adopts objects. */
export type ObjectAdopter = ReturnType<typeof createObjectAdopter>;

/** The dependencies of an adopter. */
export interface AdopterNeeds
  extends Omit<WrittenStore, "store">,
    Pick<QueueEventNeeds, "clock" | "entropy"> {
  store: Pick<ObjectStore, "list" | "read">;
  db: Database;
  /** Opens a connection that commits. */
  connect(): Promise<Client>;
  codec: BlockCodec;
  observe: LossObserver;
  log: Record<"warn" | "error", (fields: object, message: string) => void>;
}

const objectsOfPage = 1_000;
const readsAtOnce = 16;
const holesMax = 10_000;
const attemptsMax = 5;
/** Sequences that were rejected or discarded are counted one by one. */
const unstoredMax = 1_000_000;
/** Core uses a name for half as long at most (object-writer.ts). */
const drawnSeconds = 3_600;

/** Creates the adopter of a store's objects. */
export const createObjectAdopter = (needs: AdopterNeeds) => {
  const { db, store, storeId, log } = needs;
  const listUnsettled = async function* () {
    const oldest = await findOldestDrawnId(db, storeId);
    let after = objectNameOf(oldest ?? (await findLastDrawnId(db)) + 1, "");
    for (;;) {
      const listed = await store.list({ prefix: telemetryPrefix, after, limit: objectsOfPage });
      const named = listed.flatMap(({ name }) => drawnOf(name));
      yield (await findUnsettledObjects(db, named, storeId)).toSorted((a, b) => a.id - b.id);
      const last = listed.at(-1);
      if (last === undefined || listed.length < objectsOfPage) return;
      after = last.name;
    }
  };
  const recover = shareNextRun(
    () => adoptAll(needs, { list: listUnsettled, isOld: false }),
    () => "",
  );

  return {
    /** Adopts every object that the database does not have. Calls share runs that start after them. */
    recover: () => recover(undefined),
    /** Recovers if the store has an object beyond the last name that was drawn: then the database was restored to an earlier state. */
    checkRestored: singleFlight(async () => {
      const after = objectNameOf((await findLastDrawnId(db)) + 1, "");
      const listed = await store.list({ prefix: telemetryPrefix, after, limit: objectsOfPage });
      // An object's name is drawn before it is written.
      const last = await findLastDrawnId(db);
      if (!listed.some(({ name }) => (objectIdOf(name) ?? 0) > last)) return;
      log.error(
        { last_drawn: last },
        "the store has objects that the database does not know: the database was restored",
      );
      await recover(undefined);
    }),
    /** Settles names that no core uses any more: adopts their objects, or marks them for deletion. Returns how many have no object. */
    async settleOld(): Promise<number> {
      const old = await findWaitingObjects(db, {
        state: "drawn",
        seconds: drawnSeconds,
        limit: objectsOfPage,
      });
      const own = old.filter((object) => object.storeId === storeId);
      const missing = await findMissing(store, own);
      await markDrawnObjects(db, [...missing]);
      const written = own.filter((object) => !missing.has(object));
      const list = async function* () {
        yield written;
      };
      if (written.length > 0) await adoptAll(needs, { list, isOld: true });
      return missing.size;
    },
  };
};

const drawnOf = (name: string): DrawnObject[] => {
  const id = objectIdOf(name);
  return id === null ? [] : [{ id, nonce: name.slice(name.lastIndexOf("-") + 1) }];
};

/** Finds the names that have no object. */
const findMissing = async (
  store: Pick<ObjectStore, "read">,
  objects: readonly NamedObject[],
): Promise<Set<NamedObject>> => {
  const missing = new Set<NamedObject>();
  const waiting = [...objects];
  const checkNext = async () => {
    for (let object = waiting.pop(); object; object = waiting.pop()) {
      const found = await store.read(object.name, { last: 1 }).catch(unlessMissing);
      if (found === undefined) missing.add(object);
    }
  };
  await Promise.all(Array.from({ length: readsAtOnce }, checkNext));
  return missing;
};

const unlessMissing = (cause: unknown): undefined => {
  if (!(cause instanceof ObjectMissing)) throw cause;
};

/** Where an adoption gets its objects, and whether no batch uses any of them any more. */
interface Source {
  list(): AsyncIterable<readonly NamedObject[]>;
  isOld: boolean;
}

/** The results of a pass over the objects. */
interface Pass {
  adopted: number;
  envelopes: number;
  /** Objects that wait for others. */
  waiting: number;
  /** Where queues may continue behind what no object has. */
  holes: Map<string, { queue: ObjectQueue; from: bigint }>;
}

type AdoptionRun = AdopterNeeds & Pick<Source, "isOld"> & { client: Client };

const adoptAll = async (needs: AdopterNeeds, { list, isOld }: Source): Promise<void> => {
  const client = await needs.connect();
  const total = { objects: 0, envelopes: 0 };
  try {
    // Until the connection ends.
    await client.query("select pg_advisory_lock(hashtext('adopt objects'))");
    for (let isLast = false; ; ) {
      const pass: Pass = { adopted: 0, envelopes: 0, waiting: 0, holes: new Map() };
      for await (const objects of list())
        await adoptPage({ ...needs, isOld, client }, objects, { pass, isLast });
      total.objects += pass.adopted;
      total.envelopes += pass.envelopes;
      if (pass.waiting === 0 || isLast) break;
      if (pass.adopted === 0) isLast = !(await skipHoles(needs, pass));
    }
  } finally {
    destroyClient(client);
  }
  if (total.objects > 0) needs.log.warn(total, "telemetry was adopted from objects");
};

/** Adopts the objects that continue their queues; in the last pass also those that do so in part. */
const adoptPage = async (
  needs: AdoptionRun,
  objects: readonly NamedObject[],
  progress: { pass: Pass; isLast: boolean },
): Promise<void> => {
  for (let at = 0; at < objects.length; at += readsAtOnce) {
    const some = objects.slice(at, at + readsAtOnce);
    const footers = await Promise.all(some.map((object) => findFooter(needs, object)));
    for (const [index, object] of some.entries()) {
      const footer = footers[index];
      if (footer) await adoptObject(needs, { object, footer, ...progress });
    }
  }
};

/** Reads the footer of an object; undefined for one that is damaged, or of another database. */
const findFooter = async (
  { store, lineage, log }: AdopterNeeds,
  { id, name }: NamedObject,
): Promise<ObjectFooter | undefined> => {
  try {
    const footer = await readFooter(store, name);
    if (footer.lineage === lineage && Number(footer.objectId) === id) return footer;
    log.warn({ object: id }, "an object is of another database; core leaves it alone");
  } catch (err) {
    if (!(err instanceof ObjectMissing || err instanceof ObjectChanged)) throw err;
    log.error({ object: id, err }, "an object is damaged: it is not adopted");
  }
  return undefined;
};

interface UnsettledObject {
  object: NamedObject;
  footer: ObjectFooter;
  pass: Pass;
  isLast: boolean;
}

/** A queue of an object, and where it is in the database. */
interface PlacedQueue {
  queue: ObjectQueue;
  cursor: bigint;
  /** It is of another session than the queue. */
  isFenced: boolean;
}

const adoptObject = async (needs: AdoptionRun, unsettled: UnsettledObject): Promise<void> => {
  for (let attempt = 0; attempt < attemptsMax; attempt++)
    if (await tryToAdopt(needs, unsettled)) return;
  throw new Error("the cursors of an object's queues moved while it was adopted");
};

/** Adopts an object, marks it for deletion or leaves it; returns false when a cursor moved meanwhile. */
const tryToAdopt = async (needs: AdoptionRun, unsettled: UnsettledObject): Promise<boolean> => {
  const { object, footer, pass, isLast } = unsettled;
  // The core of a recent one may be about to commit it, or the one before it.
  const isEnded = needs.isOld || !object.isRecent;
  const queues = (await placeQueues(needs.db, footer, object)).filter(
    ({ queue, cursor }) => queue.cursor > cursor,
  );
  if (queues.length === 0) {
    if (isEnded) await markDrawnObjects(needs.db, [object]);
    return true;
  }
  const open = queues.filter(({ isFenced }) => !isFenced);
  const ahead = open.filter(({ queue, cursor }) => queue.previousCursor > cursor);
  if (ahead.length > 0 && !(isLast && isEnded)) {
    pass.waiting++;
    if (isEnded) for (const { queue } of ahead) noteHole(pass, queue);
    return true;
  }
  for (const each of ahead) nameLeft(needs, each, "no object has what comes before it");
  const next = open.filter(({ queue, cursor }) => queue.previousCursor <= cursor);
  return open.length === 0 || adoptQueues(needs, unsettled, next);
};

/** Adopts queues of an object, and keeps it; returns false when a cursor moved meanwhile. */
const adoptQueues = async (
  needs: AdoptionRun,
  unsettled: UnsettledObject,
  next: readonly PlacedQueue[],
): Promise<boolean> => {
  const { object, footer, pass } = unsettled;
  const frames = (await Promise.all(next.map((each) => framesOf(needs, object, each)))).flat();
  if (frames.length === 0) {
    await keepObject(needs.db, object, Number(footer.storedAtMs));
    return true;
  }
  if (!(await commitFrames(needs, unsettled, { frames, next }))) return false;
  pass.adopted++;
  pass.envelopes += frames.reduce((sum, { run }) => sum + run.count, 0);
  return true;
};

const placeQueues = async (
  db: Database,
  { queues }: ObjectFooter,
  { isRecent }: NamedObject,
): Promise<PlacedQueue[]> => {
  const rows = new Map((await findCursors(db, queues)).map((row) => [queueKey(row), row]));
  return queues.map((queue) => {
    const { cursor = 0n, sessionId = null } = rows.get(queueKey(queue)) ?? {};
    const isOwn = sessionId !== null && equalBytes(sessionId, queue.sessionId);
    return { queue, cursor, isFenced: isRecent && queue.sessionId.length > 0 && !isOwn };
  });
};

const noteHole = ({ holes }: Pass, queue: ObjectQueue) => {
  const key = queueKey(queue);
  const known = holes.get(key);
  if (!queue.settled || (known && known.from <= queue.previousCursor)) return;
  if (known || holes.size < holesMax) holes.set(key, { queue, from: queue.previousCursor });
};

/** Logs which range of a host is not adopted, and why. */
const nameLeft = ({ log }: AdopterNeeds, { queue, cursor }: PlacedQueue, why: string) =>
  log.warn(
    {
      host_id: queue.hostId,
      queue_id: queue.queueId.toHex(),
      cursor: String(cursor),
      from: String(queue.previousCursor + 1n),
      through: String(queue.cursor),
    },
    `a range of an object is not adopted: ${why}`,
  );

/** Commits frames at the cursors of their queues; returns false, with nothing committed, when one has moved. */
const commitFrames = async (
  { client, codec }: AdoptionRun,
  { object, footer }: UnsettledObject,
  { frames, next }: { frames: readonly FrameToCommit[]; next: readonly PlacedQueue[] },
): Promise<boolean> => {
  const bytes = footer.queues
    .flatMap(({ blocks }) => blocks)
    .reduce((sum, { length }) => sum + length, 0);
  try {
    const committed = await commitBatchAhead(client, frames, {
      codec,
      expected: new Map(next.map(({ queue, cursor }) => [queueKey(queue), cursor])),
      turn: undefined,
      now: () => Number(footer.storedAtMs),
      // The object is written already.
      objects: {
        write: async ({ blocks }) => ({ ...object, bytes, blocks }),
        discardNames: () => undefined,
      },
    });
    return committed !== undefined;
  } catch (cause) {
    // Another core has adopted it.
    if (errorCode(cause) === invalidName) return false;
    throw cause;
  }
};

/** Returns what an object has of a queue as frames whose data are in the object; none if a block that has to be cut is damaged. */
const framesOf = async (
  needs: AdopterNeeds,
  object: NamedObject,
  placed: PlacedQueue,
): Promise<FrameToCommit[]> => {
  const { queue, cursor } = placed;
  const { hostId, queueId } = queue;
  const sessionId = object.isRecent && queue.sessionId.length > 0 ? queue.sessionId : undefined;
  const frames: FrameToCommit[] = [];
  let previousSequence = queue.previousCursor;
  const add = (lastSequence: bigint, receivedAtMs: bigint, run: EnvelopeRun) => {
    const shared = { hostId, queueId, sessionId, receivedAt: Number(receivedAtMs) };
    frames.push({ ...shared, previousSequence, lastSequence, run });
    previousSequence = lastSequence;
  };
  try {
    for (const block of queue.blocks) {
      const isCut = block.firstSequence <= cursor && block.lastSequence > cursor;
      const run = isCut
        ? await readAbove(needs, object, { block, cursor })
        : placedRun(block, referenceOf(object, block));
      add(block.lastSequence, block.receivedAtMs, run);
    }
  } catch (cause) {
    if (!(cause instanceof ObjectMissing || cause instanceof ObjectChanged)) throw cause;
    nameLeft(needs, placed, cause.message);
    return [];
  }
  if (previousSequence < queue.cursor || frames.length === 0) add(queue.cursor, 0n, emptyRun());
  // The footer has only counts: of a range that is stored in part, the rejected and discarded sequences are unknown.
  const last = frames.at(-1);
  if (last && cursor === queue.previousCursor) {
    const repeated = (count: number) =>
      Array<bigint>(Math.min(count, unstoredMax)).fill(queue.cursor);
    last.unstored = {
      rejected: repeated(queue.rejected),
      discarded: repeated(queue.discarded),
    };
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

/** Reads a block, and returns its envelopes above the cursor. Throws `ObjectMissing` and `ObjectChanged`. */
const readAbove = async (
  { store, codec }: AdopterNeeds,
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

/** Moves cursors over what no object has, and records it as lost; returns whether it moved any. */
const skipHoles = async (needs: AdopterNeeds, { holes }: Pass): Promise<boolean> => {
  const register = { record: createQueueEventRecorder(needs), addGap };
  let isMoved = false;
  for (const { queue, from } of holes.values()) {
    const name: QueueName = { hostId: queue.hostId, queueId: queue.queueId };
    const losses = await needs.db.transaction(async (tx) => {
      const now = new Date(needs.clock.now());
      const [row] = await lockCursors(tx, [name], now);
      if (row === undefined || row.cursor >= from) return [];
      isMoved = true;
      // A queue that the database does not know continues another id of its host's.
      const isNew = row.cursor === 0n && row.sessionId === null;
      const lost = isNew ? undefined : { from: row.cursor + 1n, through: from, isPlausible: true };
      const sequences = lost ? sequencesOf(lost) : 0n;
      const moved = { ...name, cursor: from, sessionId: undefined, lost: sequences };
      await updateCursors(tx, [moved], now);
      return recordLoss(register, tx, name, { lost, now });
    });
    for (const loss of losses) countLoss(needs.observe, loss);
  }
  return isMoved;
};
