/** Mistakes of what stores telemetry in objects: clients of the bucket, writers and readers of objects, and rows that name these. */
import {
  ObjectExists,
  type ObjectStore,
  ObjectStoreUnavailable,
} from "#functions/objects/object-store.ts";
import {
  decodeReference,
  encodeReference,
  type ObjectReference,
} from "#functions/store/ingest/object-reference.ts";
import { BlockCorrupt } from "#functions/store/ingest/stored-envelope.ts";
import { concatBytes } from "#kit/bytes.ts";
import type { WriterFault } from "../core.ts";
import type { Plant } from "../plant.ts";

/** Replaces members of clients of the bucket. */
const bucket = (change: (store: ObjectStore) => Partial<ObjectStore>): Plant => ({
  bucket: (store) => ({ ...store, ...change(store) }),
});

/** Replaces what writes the object of a batch. */
const writer = (
  change: (write: ReturnType<WriterFault>["write"]) => ReturnType<WriterFault>["write"],
): Plant => ({ writer: (own) => ({ ...own, write: change(own.write) }) });

/** Takes errors of a class for a success. */
const putIn = (ignored: new (message: string) => Error): Plant =>
  bucket(({ put }) => ({
    put: (...object) =>
      put(...object).catch((cause) => {
        if (!(cause instanceof ignored)) throw cause;
      }),
  }));

/** Stores other parts of each object. */
const parts = (change: (parts: readonly Uint8Array[]) => readonly Uint8Array[]): Plant =>
  bucket(({ put }) => ({ put: (name, all, signal) => put(name, change(all), signal) }));

/** Refers to other places of objects. */
const references = (change: (reference: ObjectReference) => Partial<ObjectReference>): Plant =>
  writer((write) => async (...batch) => {
    const written = await write(...batch);
    const blocks = written.blocks.map((block) => {
      const reference = decodeReference(concatBytes(block.data));
      return { ...block, data: [encodeReference({ ...reference, ...change(reference) })] };
    });
    return { ...written, blocks };
  });

/** The mistakes of objects by name. */
export const objectPlants: Readonly<Record<string, Plant>> = {
  "a block is stored before its object": bucket(({ put }) => ({
    put: async (...object) => void put(...object).catch(() => undefined),
  })),
  "a footer leaves queues out": writer(
    (write) =>
      ({ queues, ...batch }, signal) =>
        write({ ...batch, queues: queues.slice(1) }, signal),
  ),
  "a name is consumed whatever became of it": { server: { consumesAnything: true } },
  // Each of the three alone is noticed.
  "a name is used twice": {
    ...bucket((store) => ({
      put: async (...object) => {
        await store.delete([object[0]]);
        return store.put(...object);
      },
    })),
    server: { drawsAgain: true },
    nonces: { bytes: (length) => new Uint8Array(length) },
  },
  "a name is not consumed": { server: { consumesNothing: true } },
  "a reader takes a store that does not answer for damage": {
    reader: (reader) => ({
      withData: (blocks) =>
        reader.withData(blocks).catch((cause) => {
          if (!(cause instanceof ObjectStoreUnavailable)) throw cause;
          return blocks.map(() => new BlockCorrupt(cause.message));
        }),
    }),
  },
  "a store that failed once is not tried again": bucket(({ put }) => {
    let failure: unknown;
    return {
      put: async (...object) => {
        if (failure) throw failure;
        await put(...object).catch((cause) => {
          failure = cause;
          throw cause;
        });
      },
    };
  }),
  "a reader skips what it cannot read": {
    reader: (reader) => ({
      withData: (blocks) => reader.withData(blocks).catch(() => []),
    }),
  },
  "a part that is cut off is whole": bucket(({ read }) => ({
    read: async (...part) => (await read(...part)).subarray(1),
  })),
  "a reference has a byte too few": references(({ length }) => ({ length: length - 1 })),
  "a reference has another encoding": references(({ encoding }) => ({ encoding: 3 - encoding })),
  "a reference has another nonce": references(() => ({ nonce: "0011223344556677" })),
  "every block of an object is its first": references(() => ({ offset: 0 })),
  "objects have no footer": parts((all) => all.slice(0, -2)),
  "objects lack a block": parts((all) => (all.length > 2 ? all.slice(1) : all)),
  "objects lack their last byte": parts((all) => [
    ...all.slice(0, -1),
    (all.at(-1) ?? new Uint8Array()).subarray(0, -1),
  ]),
  "other bytes under its name are core's": putIn(ObjectExists),
  "the sweep deletes objects that rows name": { server: { sweeps: "stored" } },
  "the sweep deletes objects before their names": { server: { sweeps: "drawn" } },
  "what the bucket did not answer is stored": putIn(ObjectStoreUnavailable),
  "what is deleted only loses its row": bucket(() => ({ delete: async () => undefined })),
};
