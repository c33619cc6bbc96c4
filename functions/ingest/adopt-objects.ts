/**
 * Adopts objects whose blocks the database does not have: those of a core that failed before its commit, and all that were written after
 * the state to which a database was restored. Invariants:
 * - What the stores have behind the last stored object becomes a row before core draws another name. Adoption then goes by rows: it continues after a
 *   failure, and needs no listing that is up to date.
 * - An object's name is consumed in the transaction that stores its rows, and only if the cursors are where its footer was compared with
 *   them. So each envelope is stored once, whichever cores adopt, commit or receive it again meanwhile.
 * - An object waits until each of its queues has come to it: objects are adopted in the order of their commits, whatever their names.
 * - While an earlier store is unavailable, what others have is adopted, but no cursor skips anything: that store may have it.
 * - A cursor skips what no object has only up to what was committed, as a footer or the queue's host says; the rest is still at its host. The
 *   beginning of an unknown queue waits a day for a claim: only the host knows which sequences are of its earlier queues. One core adopts at a time,
 *   and every object at once, so that none takes what another has for missing.
 * - Frames of a session that is not the queue's are not adopted, except of an object that is newer than the state of the database, and of
 *   a session that its host names, up to what the host knows to be acknowledged: a restore may go unnoticed.
 * - They are also adopted of an object that continues a queue exactly, if the database does not know the queue's session, if the queue's host
 *   has left it, or must as a copy, and core reported the object's end as stored, or after a day. After a day that holds of each object that has
 *   more of the queue, and of one behind a hole.
 * - A queue is the session's of what was adopted last. Whoever continues another copy finds it forked, and loses nothing.
 * - An object is marked for deletion only when the cursors cover all that it has. One of which something is left stays until retention. What is
 *   adopted of an object before all of it can be is copied from it.
 */
import type { Client } from "pg";
import {
  ObjectChanged,
  ObjectMissing,
  ObjectStoreUnavailable,
} from "#functions/objects/object-store.ts";
import { equalBytes } from "#kit/bytes.ts";
import { hourMs, minuteMs } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import type { ObjectFooter } from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import type { Database } from "../store/database/database.ts";
import { commitBatchAhead, invalidName } from "../store/ingest/commit-batch.ts";
import { destroyClient, lastResult, limitSilence } from "../store/ingest/copy-transaction.ts";
import { type FrameToCommit, queueKey } from "../store/ingest/decide-batch.ts";
import { readFooter } from "../store/ingest/object-footer.ts";
import {
  type DrawnObject,
  findUnsettledObjects,
  hasEndedObjects,
  ignoreObject,
  keepObject,
  markDrawnObject,
  type UnsettledObject,
} from "../store/ingest/objects.ts";
import { noteEarlier, type QueueName } from "../store/ingest/queues.ts";
import type { BlockCodec } from "../store/ingest/stored-envelope.ts";
import {
  framesOf,
  type PlacedQueue,
  type PlaceNeeds,
  placeQueues,
  type QueueClaim,
  takeQueues,
} from "./adopted-frames.ts";
import {
  findStores,
  type OpenedStores,
  openStores,
  registerUnknown,
  type StoreNeeds,
} from "./adopted-stores.ts";
import {
  type AdoptionObserver,
  type AdoptionReport,
  createAdoptionReport,
  describeQueuePart,
} from "./adoption-report.ts";
import type { LossObserver, QueueEventNeeds } from "./queue-events.ts";
import { type FoundHoles, noteHole, noteWaiting, openHoles, skipHoles } from "./skip-holes.ts";

/** Adopts objects. */
export type ObjectAdopter = ReturnType<typeof createObjectAdopter>;

/** The dependencies of an adopter. */
export interface AdopterNeeds extends StoreNeeds, Pick<QueueEventNeeds, "entropy"> {
  /** Names the database in the objects. */
  lineage: string;
  /** Opens a connection that commits. */
  connect(): Promise<Client>;
  codec: BlockCodec;
  observe: LossObserver & AdoptionObserver;
  log: Record<"info" | "warn" | "error", (fields: object, message: string) => void>;
  /** The lock of adoption ends when the database has no message of this core, or this core none of the database, for so long. */
  leaseMs?: number | undefined;
}

const objectsOfPage = 1_000;
const readsAtOnce = 16;
const attemptsMax = 20;
const lockMs = 200;
/** Longer than any statement of the adopter. */
const leaseMsDefault = 9_000;
/** Reads objects that wait for their hosts again after so long for each of them, */
const waitingMs = 60;
/** but at least so often. */
const waitingMsMax = 10 * minuteMs;
const namedMax = 10_000;
/** A queue and its copies have at most so many claims. */
const claimsOfQueueMax = 16;
/** A run that adopts from so many queues counts as one that adopts from all. */
const adoptedMax = 100_000;

/** Creates the adopter of objects, also of those in stores that cores no longer use. */
export const createObjectAdopter = (needs: AdopterNeeds) => {
  const { db, log } = needs;
  const claims = new Map<string, QueueClaim[]>();
  const named = new Set<string>();
  const isUnnamed = (name: string, isKept: boolean) =>
    isKept
      ? !named.delete(name)
      : !named.has(name) && named.size < namedMax && named.add(name).has(name);
  let settlesAt = 0;
  let checkedAt = 0;
  let adoptedQueues = new Set<string>();
  /** Adopts; returns which queues it has adopted something of, itself or in the run before. */
  const adopt = shareNextRun(
    async () => {
      const claimed = new Map(claims);
      claims.clear();
      const runs = [adoptedQueues, new Set<string>()] as const;
      adoptedQueues = runs[1];
      const hasAdopted = (queue: QueueName) =>
        runs.some((keys) => keys.size === adoptedMax || keys.has(queueKey(queue)));
      const known = await findStores(needs);
      if (known.length === 0) return hasAdopted;
      const stores = await openStores(needs, known);
      const run = { ...needs, ...stores, claims: claimed, isUnnamed, adoptedQueues: runs[1] };
      const waiting = await adoptAll(run);
      settlesAt = needs.clock.monotonic() + Math.min(waiting * waitingMs, waitingMsMax);
      for (const [id, cause] of stores.unavailable)
        throw new ObjectStoreUnavailable(
          `the earlier store ${known.find((store) => store.id === id)?.location} is unavailable: ${cause.message}`,
          { cause },
        );
      return hasAdopted;
    },
    () => "",
  );

  /**
   * Adds what the store has and the database does not know: then the database was restored to another state. Adopts it in the background, so that
   * hosts of which nothing is missing go on.
   */
  const checkRestored = singleFlight(async () => {
    const { storeId } = needs;
    checkedAt = needs.clock.now();
    if (storeId === null) return;
    const store = await needs.objects.storeOf(storeId);
    const objects = await registerUnknown(db, { id: storeId, store, unlistedAbove: null });
    if (objects === 0) return;
    await findStores(needs);
    log.error(
      { objects },
      "the store has objects that the database does not know, as after a restore: core adopts them",
    );
    adopt(undefined).catch((err) =>
      log.error({ err }, "objects could not be adopted; core tries again within a minute"),
    );
  });

  return {
    /**
     * Adopts every object that the database does not have, also by what hosts claim; returns whether it has adopted anything of the claimed queues
     * since the call. Calls share runs that start after them. Throws `ObjectStoreUnavailable` if it could not ask each store.
     */
    recover: async (claimed: readonly QueueClaim[] = []): Promise<boolean> => {
      for (const claim of claimed) addClaim(claims, claim);
      // A call that waits for a run may have read what the database lacks before that run adopted it.
      return claimed.some(await adopt(undefined));
    },
    checkRestored,
    /** Adopts the objects whose names no core uses any more, marks names without one for deletion, and looks for a restore once an hour. */
    settleOld: async (): Promise<void> => {
      // No name is drawn where hosts have nothing to send, and wall clocks jump.
      if (Math.abs(needs.clock.now() - checkedAt) >= hourMs) await checkRestored();
      if (needs.clock.monotonic() >= settlesAt && (await hasEndedObjects(db)))
        await adopt(undefined);
    },
  };
};

/** Adds a claim to those of its queue, in place of one of an earlier session of the same history: a queue and its copies have claims of their own. */
const addClaim = (claims: Map<string, QueueClaim[]>, claim: QueueClaim): void => {
  const isOfHistory = ({ sessionIds: [earlier] }: QueueClaim) =>
    earlier !== undefined && claim.sessionIds.some((id) => equalBytes(id, earlier));
  const others = (claims.get(queueKey(claim)) ?? []).filter((other) => !isOfHistory(other));
  claims.set(queueKey(claim), [claim, ...others].slice(0, claimsOfQueueMax));
};

/** The results of a pass over the objects. */
interface Pass extends FoundHoles {
  isLast: boolean;
  adopted: number;
  /** Objects that wait for others. */
  waiting: number;
}

interface AdoptionRun extends AdopterNeeds, PlaceNeeds, OpenedStores {
  /** The queues of which it has adopted something. */
  adoptedQueues: Set<string>;
  /** Reports, and notes, that what an object has is not in the log yet. One that is kept waits no longer. */
  isUnnamed(name: string, isKept: boolean): boolean;
}
interface ConnectedRun extends AdoptionRun {
  client: Client;
  report: AdoptionReport;
  /** Names that had no object: cores draw many more than they use. */
  unused: Set<string>;
}

/** Adopts what it can; returns how many objects wait. */
const adoptAll = async (needs: AdoptionRun): Promise<number> => {
  const client = await needs.connect();
  const report = createAdoptionReport(needs);
  const ended = new AbortController();
  const run: ConnectedRun = { ...needs, client, report, unused: new Set() };
  try {
    await lockAdoption(client, needs, ended.signal);
    for (let isLast = false; ; ) {
      const pass: Pass = {
        isLast,
        adopted: 0,
        waiting: 0,
        holes: new Map(),
        waitingParts: new Map(),
      };
      for await (const objects of unsettledPages(needs.db)) await adoptPage(run, objects, pass);
      if (pass.waiting === 0 || isLast) return pass.waiting;
      if (pass.adopted > 0) continue;
      if (needs.unavailable.size > 0) return pass.waiting;
      // Rejects if the lock has ended: another core may adopt what precedes a hole.
      await client.query(renewal(needs.leaseMs ?? leaseMsDefault));
      isLast = !(await skipHoles(needs, openHoles(pass)));
    }
  } finally {
    ended.abort();
    destroyClient(client);
    await report.end();
  }
};

/** Waits until no other core adopts. The lock ends with the connection, and that when `leaseMs` pass without a message, unless `signal` aborts. */
const lockAdoption = async (
  client: Client,
  { clock, leaseMs = leaseMsDefault }: AdopterNeeds,
  signal: AbortSignal,
): Promise<void> => {
  const renewed = renewal(leaseMs);
  const ask = (text: string) => limitSilence(client, leaseMs, lastResult(client, text));
  for (;;) {
    // A server keeps the session of a core that is stopped or unreachable for hours otherwise.
    const [row] = await ask(
      `${renewed}; select pg_try_advisory_lock(hashtext('adopt objects')) as locked`,
    );
    if (row?.locked) break;
    await clock.sleep(lockMs);
  }
  const renewAll = async () => {
    for (;;) {
      await clock.sleep(leaseMs / 3, signal);
      await ask(renewed);
    }
  };
  // The adopter fails by itself without the connection.
  renewAll().catch(() => undefined);
};

/** Ends the session, and so the lock, when the server has no message for so long. */
const renewal = (leaseMs: number) => `set idle_session_timeout = ${leaseMs}`;

async function* unsettledPages(db: Database): AsyncGenerator<readonly UnsettledObject[]> {
  for (let after: DrawnObject = { id: 0, nonce: "" }; ; ) {
    const page = await findUnsettledObjects(db, { after, limit: objectsOfPage });
    yield page;
    after = page.at(-1) ?? after;
    if (page.length < objectsOfPage) return;
  }
}

/** Adopts the objects that continue their queues; in the last pass also those that do so in part. */
const adoptPage = async (
  needs: ConnectedRun,
  page: readonly UnsettledObject[],
  pass: Pass,
): Promise<void> => {
  const objects = page.filter(({ name }) => !needs.unused.has(name));
  for (let at = 0; at < objects.length; at += readsAtOnce) {
    const some = objects.slice(at, at + readsAtOnce);
    const footers = await Promise.all(some.map((object) => findFooter(needs, object, pass)));
    for (const [index, object] of some.entries()) {
      const footer = footers[index];
      if (footer) await adoptObject(needs, { object, footer, pass });
    }
    needs.report.progress();
  }
};

/** Reads the footer of an object. Settles an object that has none, or is of another database. */
const findFooter = async (
  needs: ConnectedRun,
  object: UnsettledObject,
  pass: Pass,
): Promise<ObjectFooter | undefined> => {
  const { db, lineage, clock, log, report, stores, unavailable } = needs;
  const store = stores.get(object.storeId);
  if (store === undefined) {
    if (unavailable.has(object.storeId)) pass.waiting++;
    else {
      report.left({ object: object.id, store: object.storeId }, "its store is not known any more");
      await keepObject(db, object, clock.now());
    }
    return undefined;
  }
  try {
    const footer = await readFooter(store, object.name);
    if (footer.lineage === lineage && Number(footer.objectId) === object.id) return footer;
    log.warn({ object: object.id }, "an object is of another database; core leaves it alone");
    await ignoreObject(db, object);
  } catch (err) {
    if (err instanceof ObjectMissing) {
      needs.unused.add(object.name);
      if (object.isEnded) await markDrawnObject(db, object);
    } else if (!(err instanceof ObjectChanged)) throw err;
    else if (object.isEnded) {
      report.left({ object: object.id, err }, "the object is damaged");
      await keepObject(db, object, clock.now());
    }
  }
  return undefined;
};

const storeOf = ({ stores }: AdoptionRun, { storeId }: UnsettledObject) => {
  const store = stores.get(storeId);
  if (store === undefined) throw new Error("an object is in a store that core has not opened");
  return store;
};

interface FoundObject {
  object: UnsettledObject;
  footer: ObjectFooter;
  pass: Pass;
}

const adoptObject = async (needs: ConnectedRun, found: FoundObject): Promise<void> => {
  for (let attempt = 0; attempt < attemptsMax; attempt++)
    if (await tryToAdopt(needs, found)) return;
  throw new Error("the cursors of an object's queues moved while it was adopted");
};

/** Adopts an object, marks it for deletion or leaves it; returns false when a cursor moved meanwhile. */
const tryToAdopt = async (needs: ConnectedRun, found: FoundObject): Promise<boolean> => {
  const { object, footer, pass } = found;
  const { db } = needs;
  const queues = (await placeQueues(needs, footer.queues, object)).filter(
    ({ queue, cursor }) => queue.cursor > cursor,
  );
  // The core of a name in use may be about to commit it, or the one before it.
  if (queues.length === 0) {
    if (object.isEnded) await markDrawnObject(db, object);
    return true;
  }
  const open = queues.filter(({ isFenced }) => !isFenced);
  noteWaiting(
    pass,
    queues.filter(({ isFenced }) => isFenced),
    object,
  );
  const isAhead = ({ queue, cursor }: PlacedQueue) => queue.previousCursor > cursor;
  const ahead = open.filter(isAhead);
  const next = open.filter((each) => !isAhead(each));
  for (const each of ahead) noteHole(pass, each, object);
  const isSettled = pass.isLast && object.isEnded;
  const isKept = pass.isLast && object.isLong;
  if (isSettled && ahead.length > 0 && needs.isUnnamed(object.name, isKept))
    for (const each of ahead)
      needs.report.left(describeQueuePart(each), "no object has what comes before it");
  if (next.length < queues.length && !isKept) {
    pass.waiting++;
    // The hosts of these do not have them any more; those of others may claim theirs within a day.
    const ready = next.filter(({ ackedThrough }) => ackedThrough > 0n || isSettled);
    noteWaiting(
      pass,
      next.filter((each) => !ready.includes(each)),
      object,
    );
    return ready.length === 0 || adoptQueues(needs, found, { next: ready, isCopied: true });
  }
  return adoptQueues(needs, found, { next, isCopied: false });
};

/** Adopts queues of an object, and keeps it; returns false when a cursor moved meanwhile. Copied ones leave it as it is. */
const adoptQueues = async (
  needs: ConnectedRun,
  found: FoundObject,
  { next, isCopied }: { next: readonly PlacedQueue[]; isCopied: boolean },
): Promise<boolean> => {
  const { object, footer, pass } = found;
  const { report } = needs;
  const read = { codec: needs.codec, store: storeOf(needs, object) };
  const frames: FrameToCommit[] = [];
  const adopted: PlacedQueue[] = [];
  for (const each of next) {
    try {
      frames.push(...(await framesOf(read, object, { ...each, isCopied })));
      adopted.push(each);
    } catch (cause) {
      if (!(cause instanceof ObjectMissing || cause instanceof ObjectChanged)) throw cause;
      report.left(describeQueuePart(each), cause.message);
    }
  }
  if (frames.length === 0) {
    if (!isCopied) await keepObject(needs.db, object, Number(footer.storedAtMs));
    return true;
  }
  // A restored database may not know that these queues were in use then, and that they bind the hours since.
  const seen = adopted.map(({ queue: { hostId, queueId, blocks } }) => ({
    hostId,
    queueId,
    at: Number(blocks[0]?.receivedAtMs ?? footer.storedAtMs),
  }));
  await noteEarlier(needs.db, seen, new Date(needs.clock.now()));
  if (!(await commitFrames(needs, found, { frames, next: adopted, isCopied }))) return false;
  pass.adopted++;
  for (const { queue } of adopted)
    if (needs.adoptedQueues.size < adoptedMax) needs.adoptedQueues.add(queueKey(queue));
  report.adopted(adopted);
  return true;
};

/** Commits frames at the cursors of their queues; returns false, with nothing committed, when one has moved. */
const commitFrames = async (
  { client, codec, db }: ConnectedRun,
  { object, footer }: FoundObject,
  {
    frames,
    next,
    isCopied,
  }: { frames: readonly FrameToCommit[]; next: readonly PlacedQueue[]; isCopied: boolean },
): Promise<boolean> => {
  const bytes = footer.queues
    .flatMap(({ blocks }) => blocks)
    .reduce((sum, { length }) => sum + length, 0);
  if (!(await takeQueues({ db }, next))) return false;
  try {
    const committed = await commitBatchAhead(client, frames, {
      codec,
      expected: new Map(next.map(({ queue, cursor }) => [queueKey(queue), cursor])),
      turn: undefined,
      now: () => Number(footer.storedAtMs),
      ...(!isCopied && {
        objects: {
          // The object is written already.
          write: async ({ blocks }) => ({ ...object, bytes, blocks }),
          discardNames: () => undefined,
          discard: () => undefined,
        },
      }),
    });
    return committed !== undefined;
  } catch (cause) {
    // Another core has adopted it.
    if (errorCode(cause) === invalidName) return false;
    throw cause;
  }
};
