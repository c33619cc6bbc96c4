import {
  ObjectChanged,
  ObjectExists,
  ObjectMissing,
  type ObjectStore,
} from "#functions/objects/object-store.ts";
import { equalBytes } from "#kit/bytes.ts";

/** An object store in memory, whose objects a test reads and changes. */
export interface MemoryStore extends ObjectStore {
  objects: Map<string, Buffer>;
  /** The ranges that were read, each by name, offset and length. */
  reads: string[];
  /** How often it was listed. */
  lists: number;
  /** Awaited before each put takes effect. */
  beforePut(name: string): Promise<void>;
}

/** Counts no loss and no adoption. */
export const unobservedLosses = {
  gap: () => undefined,
  implausibleGap: () => undefined,
  objects: () => undefined,
  adopted: () => undefined,
};

/** Creates an empty store. */
export const createMemoryStore = (): MemoryStore => {
  const objects = new Map<string, Buffer>();
  const reads: string[] = [];
  const store: MemoryStore = {
    objects,
    reads,
    lists: 0,
    beforePut: async () => undefined,
    async put(name, parts) {
      await store.beforePut(name);
      const bytes = Buffer.concat(parts);
      const found = objects.get(name);
      if (found && !equalBytes(found, bytes)) throw new ObjectExists(name);
      objects.set(name, bytes);
    },
    async read(name, range) {
      const object = objects.get(name);
      if (object === undefined) throw new ObjectMissing(name);
      if ("last" in range) return object.subarray(-range.last);
      const { offset, length } = range;
      reads.push(`${name} ${offset}+${length}`);
      if (offset + length > object.length) throw new ObjectChanged(name);
      return object.subarray(offset, offset + length);
    },
    async list({ prefix, after = "", limit }) {
      store.lists += 1;
      const names = [...objects.keys()].filter((name) => name.startsWith(prefix) && name > after);
      return names
        .sort()
        .slice(0, limit)
        .map((name) => ({ name, bytes: objects.get(name)?.length ?? 0 }));
    },
    async delete(names) {
      for (const name of names) objects.delete(name);
    },
    hazards: () => [],
  };
  return store;
};
