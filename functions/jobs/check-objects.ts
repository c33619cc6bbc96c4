import {
  ObjectMissing,
  type ObjectStore,
  telemetryPrefix,
} from "#functions/objects/object-store.ts";
import { dayMs } from "#kit/clock.ts";
import type { Core } from "../core.ts";
import {
  findObjectBlocks,
  findStoredObjects,
  listStores,
  type StoredObjectRow,
} from "../store/ingest/objects.ts";
import { describeDamage } from "../store/ingest/stored-envelope.ts";

/** How often all objects are checked. */
export const objectCheckMs = dayMs;
const objectsOfPage = 1_000;
/** A store that was set back lacks all objects since: a log of each would say no more. */
const namedMax = 100;
const blocksMax = 1_000;

type CheckCore = Pick<Core, "db" | "log" | "objects">;
type CheckedStore = Pick<ObjectStore, "list" | "read">;

/**
 * Lists the stores, and logs each object that is missing or too short, with the hosts and ranges whose telemetry it had. Returns undefined when
 * there is none.
 */
export const checkObjects = async (core: CheckCore): Promise<{ missing: number } | undefined> => {
  let missing = 0;
  for (const storeId of await listStores(core.db)) {
    const store = await core.objects.storeOf(storeId);
    for (let after = { id: 0, nonce: "" }; ; ) {
      const rows = await findStoredObjects(core.db, { storeId, after, limit: objectsOfPage });
      const last = rows.at(-1);
      if (last === undefined) break;
      for (const row of await findAbsent(store, rows)) {
        if (missing++ < namedMax) await nameLoss(core, row);
      }
      after = last;
    }
  }
  return missing === 0 ? undefined : { missing };
};

/** Finds the objects that the store does not have whole. Some stores list late, so that it asks for each that is not listed. */
const findAbsent = async (
  store: CheckedStore,
  rows: readonly StoredObjectRow[],
): Promise<StoredObjectRow[]> => {
  const first = rows[0]?.name ?? "";
  const last = rows.at(-1)?.name ?? "";
  const listed = new Map<string, number>();
  // Before the first name, which the listing then includes.
  for (let after = first.slice(0, -1); after < last; ) {
    const page = await store.list({ prefix: telemetryPrefix, after, limit: objectsOfPage });
    for (const { name, bytes } of page) listed.set(name, bytes);
    after = page.at(-1)?.name ?? last;
  }
  const absent: StoredObjectRow[] = [];
  for (const row of rows) {
    const bytes = listed.get(row.name);
    if (bytes === undefined ? await isMissing(store, row.name) : bytes < row.bytes)
      absent.push(row);
  }
  return absent;
};

const isMissing = (store: CheckedStore, name: string): Promise<boolean> =>
  store.read(name, { last: 1 }).then(
    () => false,
    (cause: unknown) => {
      if (cause instanceof ObjectMissing) return true;
      throw cause;
    },
  );

const nameLoss = async ({ db, log }: CheckCore, { id, xid }: StoredObjectRow) => {
  const found =
    xid === null ? [] : await findObjectBlocks(db, { xid, objectId: id, limit: blocksMax });
  log.error(
    { object: id, damaged: found.map(describeDamage) },
    "an object of telemetry is missing or too short; its envelopes are lost",
  );
};
