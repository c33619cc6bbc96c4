/**
 * Adopts objects whose blocks the database does not have: those of a core that failed before its commit, and all that were written after
 * the state to which a database was restored. Invariants:
 * - Blocks that continue the cursor of their queue are committed as frames are, by reference to the object; an envelope that the cursor
 *   covers is not stored again.
 * - The transaction consumes the object's name, so that neither its core nor another adopter can commit it too.
 * - An object is marked for deletion only when the cursors cover all that it has.
 * - What does not continue a cursor is named, and stays.
 * - Frames of a session that is not the queue's are not adopted, except of an object that is newer than the state of the database: its
 *   sessions are newer too.
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
import { errorCode } from "#kit/describe-error.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { BlockEncoding } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type { ObjectBlock, ObjectQueue } from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import type { Database } from "../store/database/database.ts";
import { commitBatch, invalidName, type ObjectWriter } from "../store/ingest/commit-batch.ts";
import { destroyClient } from "../store/ingest/copy-transaction.ts";
import { type FrameToCommit, queueKey, queueKeyOfHex } from "../store/ingest/decide-batch.ts";
import { type EnvelopeRun, partitionRun } from "../store/ingest/envelope-run.ts";
import { readFooter } from "../store/ingest/object-footer.ts";
import { encodeReference } from "../store/ingest/object-reference.ts";
import {
  type DrawnObject,
  findLastDrawnId,
  findOldestDrawnId,
  findUnsettledObjects,
  findWaitingObjects,
  markDrawnObjects,
  type NamedObject,
} from "../store/ingest/objects.ts";
import { findCursors } from "../store/ingest/queues.ts";
import { type BlockCodec, isOfDigest } from "../store/ingest/stored-envelope.ts";
import type { WrittenStore } from "./object-writer.ts";

/** Adopts objects. */
export type ObjectAdopter = ReturnType<typeof createObjectAdopter>;

/** The dependencies of an adopter. */
interface AdopterNeeds extends Omit<WrittenStore, "store"> {
  store: Pick<ObjectStore, "list" | "read">;
  db: Database;
  /** Opens a connection that commits. */
  connect(): Promise<Client>;
  codec: Pick<BlockCodec, "compress" | "decompress" | "digest">;
  log: Record<"warn" | "error", (fields: object, message: string) => void>;
}

const objectsOfPage = 1_000;
const readsAtOnce = 16;
const reportedMax = 10_000;
/** Core uses a name for half as long at most (object-writer.ts). */
const drawnSeconds = 3_600;

/** A range that continues no cursor. */
interface LeftRange {
  hostId: string;
  queueId: string;
  from: string;
  through: string;
}

/** Creates the adopter of a store's objects. */
export const createObjectAdopter = (needs: AdopterNeeds) => {
  const { db, store, storeId, log } = needs;
  /** Objects of which some telemetry is not adopted. */
  const reported = new Set<number>();

  const adoptOne = async (client: Client, object: NamedObject, isOld: boolean): Promise<number> => {
    try {
      const { envelopes, left } = await adoptObject(client, object, needs);
      // Its core may be about to commit it, or the one before it.
      if (!isOld && object.isRecent) return envelopes;
      if (envelopes === 0 && left.length === 0) await markDrawnObjects(db, [object]);
      if (left.length > 0 && !reported.has(object.id) && reported.size < reportedMax) {
        reported.add(object.id);
        log.error(
          { object: object.id, ranges: left },
          "an object has telemetry that continues no cursor: it is not adopted",
        );
      }
      return envelopes;
    } catch (err) {
      if (!(err instanceof ObjectMissing || err instanceof ObjectChanged)) throw err;
      log.error({ object: object.id, err }, "an object is damaged: it is not adopted");
      return 0;
    }
  };

  /** Adopts objects in the order of their names. */
  const adoptAll = async (
    objects: readonly NamedObject[],
    { isOld = false } = {},
  ): Promise<void> => {
    if (objects.length === 0) return;
    const client = await needs.connect();
    let envelopes = 0;
    try {
      for (const object of objects.toSorted((a, b) => a.id - b.id))
        envelopes += await adoptOne(client, object, isOld);
    } finally {
      destroyClient(client);
    }
    if (envelopes > 0)
      log.warn({ objects: objects.length, envelopes }, "telemetry was adopted from objects");
  };

  /** Adopts every object that the database does not have, whatever its age. */
  const recoverAll = async (): Promise<void> => {
    const oldest = await findOldestDrawnId(db, storeId);
    let after = objectNameOf(oldest ?? (await findLastDrawnId(db)) + 1, "");
    for (;;) {
      const listed = await store.list({ prefix: telemetryPrefix, after, limit: objectsOfPage });
      const named = listed.flatMap(({ name }) => drawnOf(name));
      await adoptAll(await findUnsettledObjects(db, named, storeId));
      const last = listed.at(-1);
      if (last === undefined || listed.length < objectsOfPage) return;
      after = last.name;
    }
  };
  const recover = shareNextRun(recoverAll, () => "");

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
      await adoptAll(written, { isOld: true });
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

/** Adopts what of an object is above the cursors. */
const adoptObject = async (
  client: Client,
  object: NamedObject,
  { db, store, lineage, codec }: AdopterNeeds,
): Promise<{ envelopes: number; left: readonly LeftRange[] }> => {
  const footer = await readFooter(store, object.name);
  if (footer.lineage !== lineage) throw new ObjectChanged(object.name);
  const left: LeftRange[] = [];
  const frames: FrameToCommit[] = [];
  const found = await findCursors(db, footer.queues);
  const cursors = new Map(
    found.map(({ hostId, queueHex, cursor }) => [queueKeyOfHex(hostId, queueHex), cursor]),
  );
  for (const queue of footer.queues) {
    const cursor = cursors.get(queueKey(queue)) ?? 0n;
    if (queue.cursor <= cursor) continue;
    if (queue.previousCursor > cursor) left.push(rangeOf(queue));
    else frames.push(...(await framesOf(queue, cursor, { object, store, codec })));
  }
  if (frames.length === 0) return { envelopes: 0, left };
  const bytes = footer.queues
    .flatMap(({ blocks }) => blocks)
    .reduce((sum, { length }) => sum + length, 0);
  // The object is written already.
  const objects: ObjectWriter = {
    write: async ({ blocks }) => ({ ...object, blocks, bytes }),
    discardNames: () => undefined,
  };
  const now = () => Number(footer.storedAtMs);
  try {
    const outcomes = await commitBatch(client, frames, { codec, objects, now });
    if (outcomes.some(({ outcome }) => outcome !== "committed"))
      left.push(...footer.queues.map(rangeOf));
    return { envelopes: outcomes.reduce((sum, { storedRows }) => sum + storedRows, 0), left };
  } catch (cause) {
    // Its core has committed it meanwhile.
    if (errorCode(cause) !== invalidName) throw cause;
    return { envelopes: 0, left };
  }
};

const rangeOf = (queue: ObjectQueue): LeftRange => ({
  hostId: queue.hostId,
  queueId: queue.queueId.toHex(),
  from: String(queue.previousCursor + 1n),
  through: String(queue.cursor),
});

interface AdoptedObject extends Pick<AdopterNeeds, "store" | "codec"> {
  object: NamedObject;
}

/** Returns the frames of what a queue of an object has above its cursor. */
const framesOf = async (
  queue: ObjectQueue,
  cursor: bigint,
  adopted: AdoptedObject,
): Promise<FrameToCommit[]> => {
  const { hostId, queueId, sessionId } = queue;
  const isFenced = adopted.object.isRecent && sessionId.length > 0;
  const shared = { hostId, queueId, sessionId: isFenced ? sessionId : undefined };
  const isWhole = cursor === queue.previousCursor;
  const consumed = (count: number) => Array<bigint>(isWhole ? count : 0).fill(queue.cursor);
  const unstored = { rejected: consumed(queue.rejected), discarded: consumed(queue.discarded) };
  const frames: FrameToCommit[] = [];
  let previousSequence = cursor;
  for (const block of queue.blocks) {
    const { lastSequence, firstSequence } = block;
    if (lastSequence <= cursor) continue;
    const run =
      firstSequence > cursor ? placedRun(block, adopted) : await cutRun(block, cursor, adopted);
    const receivedAt = Number(block.receivedAtMs);
    frames.push({ ...shared, receivedAt, run, previousSequence, lastSequence });
    previousSequence = lastSequence;
  }
  const last = { receivedAt: 0, run: noEnvelopes, previousSequence, lastSequence: queue.cursor };
  frames.push({ ...shared, ...last });
  return frames.map((frame, index) => (index === 0 ? { ...frame, unstored } : frame));
};

const noEnvelopes: EnvelopeRun = {
  bytes: new Uint8Array(),
  count: 0,
  payloadBytes: 0,
  firstSequence: 0n,
  lastSequence: 0n,
  kinds: new Map(),
  observed: undefined,
};

/** Reads a block, and returns its envelopes above the cursor. */
const cutRun = async (
  { offset, length, digest, encoding, rawBytes }: ObjectBlock,
  cursor: bigint,
  { object, store, codec }: AdoptedObject,
): Promise<EnvelopeRun> => {
  const data = await store.read(object.name, { offset, length });
  const isZstd = encoding === BlockEncoding.ZSTD;
  const bytes = isZstd ? codec.decompress(data, rawBytes, true) : data;
  if (bytes === null || !isOfDigest(data, digest, codec)) throw new ObjectChanged(object.name);
  const parts = partitionRun({ bytes }, ({ sequence }) => (sequence > cursor ? "" : undefined));
  return parts.get("") ?? noEnvelopes;
};

/** Returns the run of a block that stays where it is. */
const placedRun = (
  { encoding, offset, length, observedFrom, observedTo, ...block }: ObjectBlock,
  { object: { id: objectId, nonce, storeId } }: AdoptedObject,
): EnvelopeRun => ({
  bytes: new Uint8Array(),
  rawBytes: block.rawBytes,
  placed: {
    reference: encodeReference({ encoding, storeId, objectId, nonce, offset, length }),
    digest: block.digest,
  },
  count: block.envelopes,
  payloadBytes: block.payloadBytes,
  firstSequence: block.firstSequence,
  lastSequence: block.lastSequence,
  kinds: new Map(block.kinds.map(({ kind, ...counted }) => [kind, counted])),
  observed:
    observedFrom === undefined || observedTo === undefined
      ? undefined
      : { from: Number(observedFrom), to: Number(observedTo) },
});
