import type { Core } from "../core.ts";
import { deleteObjectRows, findMarkedObjects } from "../store/ingest/objects.ts";
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
 * first, then its row, so that a failure repeats both. Returns undefined when there was nothing to do.
 */
export const sweepObjects = async (core: SweepCore): Promise<Swept | undefined> => {
  const swept: Swept = { marked: 0, deleted: 0 };
  for (let step = 0; step < stepsMax; step++) {
    const { marked, deleted } = await sweepSome(core);
    swept.marked += marked;
    swept.deleted += deleted;
    if (Math.max(marked, deleted) < objectsOfStep) break;
  }
  await core.settleOld();
  return swept.marked + swept.deleted === 0 ? undefined : swept;
};

const sweepSome = async ({ db, objects }: SweepCore): Promise<Swept> => {
  const dropped = await markDroppedObjects(db, objectsOfStep);
  const marked = await findMarkedObjects(db, { seconds: markedSeconds, limit: objectsOfStep });
  for (const [storeId, some] of Map.groupBy(marked, (object) => object.storeId)) {
    const store = await objects.storeOf(storeId);
    await store.delete(some.map(({ name }) => name));
    await deleteObjectRows(db, some);
  }
  return { marked: dropped, deleted: marked.length };
};
