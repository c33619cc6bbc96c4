/** The stores whose objects are adopted. */
import {
  type ObjectStore,
  ObjectStoreUnavailable,
  objectNameOf,
  telemetryPrefix,
} from "#functions/objects/object-store.ts";
import { type Clock, TimedOut, withTimeout } from "#kit/clock.ts";
import type { Database } from "../store/database/database.ts";
import {
  drawnOf,
  findLastDrawnId,
  findLastStoredId,
  type KnownStore,
  listStores,
  noteListed,
  registerObjects,
} from "../store/ingest/objects.ts";

/** A store whose objects are adopted. */
type AdoptedStore = Pick<ObjectStore, "list" | "read">;

/** The parts of core that open stores. */
export interface StoreNeeds {
  db: Database;
  clock: Clock;
  /** Opens the stores that this database has used. */
  objects: { storeOf(id: number): Promise<AdoptedStore> };
  /** The one that this core writes to; null if rows have the data. */
  storeId: number | null;
}

const objectsOfPage = 1_000;
/** A run waits no longer for a store that core does not write to. */
const earlierStoreMs = 10_000;

/** The stores that may have objects. */
export interface OpenedStores {
  stores: Map<number, AdoptedStore>;
  /** Those that core does not write to, and why each is unavailable. */
  unavailable: Map<number, Error>;
}

/** Opens all stores, and adds the objects in them that the database does not know. Rejects while the one that core writes to is unavailable. */
export const openStores = async (
  needs: StoreNeeds,
  known: readonly KnownStore[],
): Promise<OpenedStores> => {
  const { db, storeId, clock } = needs;
  const opened: OpenedStores = { stores: new Map(), unavailable: new Map() };
  const open = async ({ id, unlistedAbove }: KnownStore) => {
    const store = await needs.objects.storeOf(id);
    await registerUnknown(db, { id, store, unlistedAbove });
    opened.stores.set(id, store);
  };
  for (const store of known)
    if (store.id === storeId) await open(store);
    else
      await withTimeout(earlierStoreMs, clock, open(store)).catch((cause) => {
        if (!(cause instanceof ObjectStoreUnavailable || cause instanceof TimedOut)) throw cause;
        opened.unavailable.set(store.id, cause);
      });
  return opened;
};

/** Finds the stores that this database has used. */
export const findStores = async ({
  db,
  storeId,
}: Pick<StoreNeeds, "db" | "storeId">): Promise<KnownStore[]> => {
  const known = await listStores(db);
  if (storeId !== null && !known.some(({ id }) => id === storeId))
    throw new Error("the restored database does not know SVC_INGEST_STORE: start core again");
  return known;
};

/**
 * Adds the objects of a store whose names were drawn by another state of the database; returns how many there are. They are above the last object
 * that is stored: another state has drawn their names when it had listed that one. Names above all that this state has drawn are of a later one.
 */
export const registerUnknown = async (
  db: Database,
  {
    id: storeId,
    store,
    unlistedAbove,
  }: Pick<KnownStore, "id" | "unlistedAbove"> & { store: AdoptedStore },
): Promise<number> => {
  const findFirst = async () => Math.min(await findLastStoredId(db), unlistedAbove ?? Infinity);
  const first = await findFirst();
  let registered = 0;
  for (let after = objectNameOf(first + 1, ""); ; ) {
    const listed = await store.list({ prefix: telemetryPrefix, after, limit: objectsOfPage });
    const objects = listed.flatMap(({ name }) => drawnOf(name));
    if (objects.length > 0) {
      // Read after the listing: an object's name is drawn before it is written.
      const newerAbove = unlistedAbove ?? (await findLastDrawnId(db));
      registered += await registerObjects(db, objects, { storeId, newerAbove, above: first });
    }
    after = listed.at(-1)?.name ?? after;
    if (listed.length < objectsOfPage) break;
  }
  // The database has gone back meanwhile: it lacks what is below, too.
  if ((await findFirst()) < first)
    return registerUnknown(db, { id: storeId, store, unlistedAbove });
  if (unlistedAbove !== null) await noteListed(db, { id: storeId, unlistedAbove });
  return registered;
};
