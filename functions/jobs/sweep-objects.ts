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
const objectsOfSweep = 1_000;

/**
 * Marks objects whose blocks retention has dropped, and names that no core uses any more, and deletes what was marked an hour ago: the object
 * first, then its row, so that a failure repeats both. Returns undefined when there was nothing to do.
 */
export const sweepObjects = async ({
  db,
  objects,
}: Pick<Core, "db" | "objects">): Promise<{ marked: number; deleted: number } | undefined> => {
  const dropped = await markDroppedObjects(db, objectsOfSweep);
  const unused = await findUnused({ db, objects });
  await markDrawnObjects(db, unused);
  const marked = await findWaitingObjects(db, {
    state: "marked",
    seconds: markedSeconds,
    limit: objectsOfSweep,
  });
  for (const [storeId, some] of Map.groupBy(marked, (object) => object.storeId)) {
    const store = await objects.storeOf(storeId);
    await store.delete(some.map(({ name }) => name));
    await deleteObjectRows(db, some);
  }
  const report = { marked: dropped + unused.length, deleted: marked.length };
  return report.marked + report.deleted === 0 ? undefined : report;
};

/** Finds old names that have no object. */
const findUnused = async ({ db, objects }: Pick<Core, "db" | "objects">) => {
  const drawn = await findWaitingObjects(db, {
    state: "drawn",
    seconds: drawnSeconds,
    limit: objectsOfSweep,
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
