import { equalBytes } from "#kit/bytes.ts";
import type { Entropy } from "#kit/entropy.ts";
import {
  ObjectExists,
  ObjectMissing,
  type ObjectStore,
  ObjectStoreUnavailable,
} from "./object-store.ts";

/** Names the database that a store belongs to. */
export const markerName = "svc-store.json";
const markerBytesMax = 4096;

/** Reports a store that core must not use; the message says why. */
export class StoreRefused extends Error {
  override readonly name = "StoreRefused";
}

/**
 * Reserves a store for the database of this lineage, by an object of its own. Throws `StoreRefused` for the store of another database, and for one
 * without that object although this database has objects in it.
 */
export const claimStore = async (
  store: ObjectStore,
  { lineage, hasObjects }: { lineage: string; hasObjects: boolean },
): Promise<void> => {
  const marker = markerOf(lineage);
  const isOurs = () => isClaimedBy(store, lineage);
  const isClaimed = await isOurs().catch(async (error) => {
    if (!(error instanceof ObjectMissing)) throw error;
    if (hasObjects)
      throw new StoreRefused(
        `the store has no ${markerName}, and so lacks the objects of this database: is it another store, or was it emptied?`,
      );
    await store.put(markerName, [marker]).catch((cause) => {
      if (!(cause instanceof ObjectExists)) throw cause;
    });
    return isOurs();
  });
  if (!isClaimed)
    throw new StoreRefused(
      `the store belongs to another database, by its ${markerName}: choose another prefix or directory`,
    );
};

const markerOf = (lineage: string) =>
  new TextEncoder().encode(JSON.stringify({ database: lineage }));

const isClaimedBy = async (store: Pick<ObjectStore, "read">, lineage: string) =>
  equalBytes(await store.read(markerName, { last: markerBytesMax }), markerOf(lineage));

/** Throws `ObjectStoreUnavailable` unless a store is that of a database: a directory that is not mounted here has lost nothing. */
export const requireClaim = async (
  store: Pick<ObjectStore, "read">,
  lineage: string,
): Promise<void> => {
  const isOurs = await isClaimedBy(store, lineage).catch((cause) => {
    if (!(cause instanceof ObjectMissing)) throw cause;
    return false;
  });
  if (!isOurs)
    throw new ObjectStoreUnavailable(
      `it has no ${markerName} of this database: is it another store, or was it emptied?`,
    );
};

/** Writes, lists, reads and deletes an object. Returns what fails, as sentences. */
export const probeStore = async (store: ObjectStore, entropy: Entropy): Promise<string[]> => {
  const name = `probe/${entropy.bytes(8).toHex()}`;
  const contents = new TextEncoder().encode(name);
  const faults: string[] = [];
  const succeeds = async (what: string, act: () => Promise<unknown>) => {
    try {
      if ((await act()) !== false) return true;
      faults.push(`core cannot ${what} objects: the store returns something else`);
    } catch (error) {
      faults.push(`core cannot ${what} objects: ${(error as Error).message}`);
    }
    return false;
  };
  const isWritten = await succeeds("write", () => store.put(name, [contents]));
  await succeeds("list", async () => {
    const [found] = await store.list({ prefix: name, limit: 1 });
    return !isWritten || found?.name === name;
  });
  if (!isWritten) return faults;
  await succeeds("read", async () =>
    equalBytes(await store.read(name, { last: contents.length + 1 }), contents),
  );
  await succeeds("delete", () => store.delete([name]));
  return faults;
};
