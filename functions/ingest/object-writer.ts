import { type ObjectStore, objectNameOf } from "#functions/objects/object-store.ts";
import { lengthOf } from "#kit/bytes.ts";
import { type Clock, callAfter, TimedOut } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Database } from "../store/database/database.ts";
import type { ObjectWriter } from "../store/ingest/commit-batch.ts";
import { layOutObject } from "../store/ingest/object-footer.ts";
import { encodeReference } from "../store/ingest/object-reference.ts";
import { type DrawnObject, drawObjects, markDrawnObject } from "../store/ingest/objects.ts";
import { blockEncodings } from "../store/ingest/stored-envelope.ts";

/** The store that a core writes objects to. */
export interface WrittenStore {
  store: Pick<ObjectStore, "put" | "delete">;
  /** The id in `ingest_store`. */
  storeId: number;
  /** Names the database in the objects. */
  lineage: string;
}

/** Receives facts about objects. */
export interface ObjectObserver {
  /** An object was written, or could not be. */
  objectWrite(facts: { seconds: number; outcome: "written" | "failed" }): void;
}

/** The dependencies of a writer. */
interface WriterNeeds extends WrittenStore {
  db: Database;
  observe: ObjectObserver;
  /** Awaited before names are drawn; it rejects while core may not store. */
  beforeDraw?: (() => Promise<void>) | undefined;
  clock: Pick<Clock, "monotonic" | "sleep">;
  entropy: Entropy;
}

const nonceBytes = 8;
const namesOfDraw = 64;
/** From here on core draws more names, before it needs them. */
const namesMin = 16;
/** Core uses no older names: after an hour they may become invalid (store/ingest/objects.ts). */
const nameMsMax = 30 * 60_000;

/** Creates the writer of a core's objects: it draws their names in advance, so that a batch does not wait for one. */
export const createObjectWriter = (needs: WriterNeeds): ObjectWriter => {
  const { store, storeId, lineage, clock, observe } = needs;
  const stock = createNameStock(needs);
  const put: ObjectStore["put"] = async (...object) => {
    const startedAt = clock.monotonic();
    let outcome: "written" | "failed" = "failed";
    try {
      await store.put(...object);
      outcome = "written";
    } finally {
      observe.objectWrite({ seconds: (clock.monotonic() - startedAt) / 1000, outcome });
    }
  };
  return {
    discardNames: stock.discard,
    discard: (object) => void deleteDrawn(needs, object).catch(() => undefined),
    async write(batch, signal) {
      const { id, nonce } = await stock.take();
      const { parts, offsets } = layOutObject(batch, { lineage, objectId: id });
      await put(objectNameOf(id, nonce), parts, signal);
      const blocks = batch.blocks.map((block, index) => ({
        ...block,
        encoding: "object" as const,
        data: [
          encodeReference({
            encoding: block.encoding === "zstd" ? blockEncodings.zstd : blockEncodings.none,
            storeId,
            objectId: id,
            nonce,
            offset: offsets[index] ?? 0,
            length: lengthOf(block.data),
          }),
        ],
      }));
      return { id, nonce, blocks, bytes: lengthOf(parts) };
    },
  };
};

/** Nothing may delete an object for long after its mark: a database that is restored meanwhile may adopt it. */
const deletesMs = 1_000;

/**
 * Deletes an object that nothing names, at once: a database that is restored forgets the mark, and would adopt what it lists. One that cannot be
 * deleted now is swept, or waits until no core uses its name.
 */
const deleteDrawn = async (
  { db, store, clock }: WriterNeeds,
  object: DrawnObject,
): Promise<void> => {
  if (!(await markDrawnObject(db, object))) return;
  const late = new AbortController();
  const cancel = callAfter(clock, deletesMs, () => late.abort(new TimedOut("not deleted in time")));
  const name = objectNameOf(object.id, object.nonce);
  await store.delete([name], late.signal).finally(cancel);
};

/** Creates a stock of names that no object has. */
const createNameStock = ({ db, storeId, clock, entropy, beforeDraw }: WriterNeeds) => {
  const names: (DrawnObject & { drawnAt: number })[] = [];
  let drawing: Promise<void> | undefined;
  const drawMore = async () => {
    await beforeDraw?.();
    const drawnAt = clock.monotonic();
    const nonce = entropy.bytes(nonceBytes).toHex();
    for (const drawn of await drawObjects(db, { storeId, nonce, count: namesOfDraw }))
      names.push({ ...drawn, drawnAt });
  };
  const draw = () => {
    drawing ??= drawMore().finally(() => {
      drawing = undefined;
    });
    return drawing;
  };
  const take = async (): Promise<DrawnObject> => {
    for (;;) {
      const name = names.shift();
      if (name === undefined) {
        await draw();
        continue;
      }
      if (clock.monotonic() - name.drawnAt > nameMsMax) continue;
      // A failure shows when a name is needed.
      if (names.length < namesMin) draw().catch(() => undefined);
      return name;
    }
  };
  const discard = () => {
    names.length = 0;
  };
  return { take, discard };
};
