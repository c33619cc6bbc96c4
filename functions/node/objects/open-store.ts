import { type ObjectStore, ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { openDirectoryStore } from "./directory-store.ts";

const directoryPrefix = "directory:";

/** Opens the object store at a location of `SVC_INGEST_STORE`. Throws `ObjectStoreUnavailable`. */
export const openObjectStore = async (
  location: string,
  needs: { clock: Pick<Clock, "now">; entropy: Entropy },
): Promise<ObjectStore> => {
  if (location.startsWith(directoryPrefix))
    return openDirectoryStore(location.slice(directoryPrefix.length), needs);
  throw new ObjectStoreUnavailable(`core does not know the kind of the store ${location}`);
};
