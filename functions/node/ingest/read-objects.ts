import type { StoreKeys } from "#functions/config/store-config.ts";
import { requireClaim } from "#functions/objects/claim-store.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import {
  createObjectReader,
  type ObjectReader,
  type ObjectReaderNeeds,
} from "#functions/store/ingest/object-data.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { zstdCodec } from "./zstd-codec.ts";

/** Creates the reader of blocks that are in objects. It imports the clients of object stores with the first of these. */
export const createNodeObjectReader = (
  db: ObjectReaderNeeds["db"],
  keys?: StoreKeys,
): ObjectReader =>
  createObjectReader({
    db,
    codec: zstdCodec,
    async open(location) {
      const { openObjectStore } = await import("../objects/open-store.ts");
      const needs = { keys, clock: systemClock, entropy: systemEntropy };
      const store = await openObjectStore(location, needs);
      await requireClaim(store, await readLineageName(db));
      return store;
    },
  });
