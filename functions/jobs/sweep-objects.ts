import { ObjectMissing } from "#functions/objects/object-store.ts";
import type { Core } from "../core.ts";
import {
  deleteObjectRows,
  findWaitingObjects,
  markDrawnObjects,
  type NamedObject,
} from "../store/ingest/objects.ts";
import { markDroppedObjects } from "../store/ingest/partitions.ts";

/** How often objects are swept. */
export const objectSweepMs = 60_000;
/** Core uses a name for half as long at most (ingest/object-writer.ts). */
const drawnSeconds = 3_600;
/** Until then readers may still read an object, and a core that was frozen may still write one. */
const markedSeconds = 3_600;
const objectsOfStep = 1_000;
/** A day's objects of the largest fleet are swept within hours. */
const stepsMax = 20;

type SweepCore = Pick<Core, "db" | "objects">;

/** How many objects were marked, and how many deleted. */
interface Swept {
  marked: number;
  deleted: number;
}

/**
 * Marks objects whose blocks retention has dropped, and names that no core uses any more, and deletes what was marked an hour ago: the object
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
  return swept.marked + swept.deleted === 0 ? undefined : swept;
};

const sweepSome = async ({ db, objects }: SweepCore): Promise<Swept> => {
  const dropped = await markDroppedObjects(db, objectsOfStep);
  const unused = await findUnused({ db, objects });
  await markDrawnObjects(db, unused);
  const marked = await findWaitingObjects(db, {
    state: "marked",
    seconds: markedSeconds,
    limit: objectsOfStep,
  });
  for (const [storeId, some] of Map.groupBy(marked, (object) => object.storeId)) {
    const store = await objects.storeOf(storeId);
    await store.delete(some.map(({ name }) => name));
    await deleteObjectRows(db, some);
  }
  return { marked: dropped + unused.length, deleted: marked.length };
};

/** Finds old names that have no object. */
const findUnused = async ({ db, objects }: SweepCore) => {
  const drawn = await findWaitingObjects(db, {
    state: "drawn",
    seconds: drawnSeconds,
    limit: objectsOfStep,
  });
  const unused: NamedObject[] = [];
  for (const object of drawn) {
    const store = await objects.storeOf(object.storeId);
    const isMissing = await store.read(object.name, { last: 1 }).then(
      () => false,
      (cause: unknown) => {
        if (cause instanceof ObjectMissing) return true;
        throw cause;
      },
    );
    if (isMissing) unused.push(object);
  }
  return unused;
};
