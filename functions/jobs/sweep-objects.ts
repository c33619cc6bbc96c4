import { ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import type { Core } from "../core.ts";
import {
  deleteForgottenRows,
  deleteObjectRows,
  findMarkedObjects,
  listStores,
} from "../store/ingest/objects.ts";
import { markDroppedObjects } from "../store/ingest/partitions.ts";

/** How often objects are swept. */
export const objectSweepMs = 60_000;
/** Until then readers may still read an object, and a core that was frozen may still write one. */
const markedSeconds = 3_600;
const objectsOfStep = 1_000;
/** A day's objects of the largest fleet are swept within hours. */
const stepsMax = 20;

interface SweepCore extends Pick<Core, "db" | "objects"> {
  /** Settles names that no core uses any more. */
  settleOld(): Promise<void>;
}

/** How many objects were marked because retention dropped their blocks, and how many were deleted. */
interface Swept {
  marked: number;
  deleted: number;
}

/**
 * Marks objects whose blocks retention has dropped, settles names that no core uses any more, and deletes what was marked an hour ago: the object
 * first, then its row, so that a failure repeats both. Returns undefined when there was nothing to do. A store that is unavailable delays no
 * other one.
 */
export const sweepObjects = async (core: SweepCore): Promise<Swept | undefined> => {
  const { db } = core;
  const marked = await inSteps(() => markDroppedObjects(db, objectsOfStep));
  let deleted = 0;
  const failures: unknown[] = [];
  const note = (failure: unknown) => {
    if (!(failure instanceof ObjectStoreUnavailable)) throw failure;
    failures.push(failure);
  };
  for (const { id } of await listStores(db))
    await inSteps(async () => {
      const some = await deleteSome(core, id);
      deleted += some;
      return some;
    }).catch(note);
  await deleteForgottenRows(db);
  await core.settleOld().catch(note);
  if (failures.length > 0) throw failures[0];
  return marked + deleted === 0 ? undefined : { marked, deleted };
};

/** Repeats a step while it has all that it may do; returns how much that was together. */
const inSteps = async (act: () => Promise<number>): Promise<number> => {
  let done = 0;
  for (let step = 0; step < stepsMax; step++) {
    const some = await act();
    done += some;
    if (some < objectsOfStep) break;
  }
  return done;
};

/** Deletes some of a store's objects that were marked an hour ago; returns how many. */
const deleteSome = async ({ db, objects }: SweepCore, storeId: number): Promise<number> => {
  const marked = await findMarkedObjects(db, {
    storeId,
    seconds: markedSeconds,
    limit: objectsOfStep,
  });
  if (marked.length === 0) return 0;
  const store = await objects.storeOf(storeId);
  await store.delete(marked.map(({ name }) => name));
  await deleteObjectRows(db, marked);
  return marked.length;
};
