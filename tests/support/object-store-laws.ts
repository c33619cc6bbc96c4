import { expect, it } from "vitest";
import {
  ObjectChanged,
  ObjectExists,
  ObjectMissing,
  type ObjectStore,
} from "#functions/objects/object-store.ts";
import { concatBytes } from "#kit/bytes.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const parts = ["first ", "", "second"].map(bytesOf);

/** Declares the tests that every store passes: `open` returns an empty one. */
export const itKeepsObjects = (open: () => Promise<ObjectStore>): void => {
  it("stores an object once, and reads any part of it", async () => {
    const store = await open();
    await store.put("o/0/a-1", parts);
    await store.put("o/0/a-1", [concatBytes(parts)]);
    await expect(store.put("o/0/a-1", [bytesOf("other")])).rejects.toThrow(ObjectExists);
    await expect(store.put("o/0/a-1", [])).rejects.toThrow(ObjectExists);
    const read = async (range: Parameters<ObjectStore["read"]>[1]) =>
      new TextDecoder().decode(await store.read("o/0/a-1", range));
    expect(await read({ offset: 6, length: 6 })).toBe("second");
    expect(await read({ offset: 0, length: 5 })).toBe("first");
    expect(await read({ last: 3 })).toBe("ond");
    expect(await read({ last: 100 })).toBe("first second");
    await expect(read({ offset: 6, length: 7 })).rejects.toThrow(ObjectChanged);
    await expect(read({ offset: 12, length: 1 })).rejects.toThrow(ObjectChanged);
    await expect(store.read("o/0/a-2", { last: 1 })).rejects.toThrow(ObjectMissing);
    await expect(store.read("o/1/a", { last: 1 })).rejects.toThrow(ObjectMissing);
  });

  it("lists objects in the order of their names, and deletes them", async () => {
    const store = await open();
    const names = ["marker.json", "o-1", "o/0/a", "o/0/b", "o/1/a", "o/1/c", "o/2/a"];
    for (const name of names.toReversed()) await store.put(name, [bytesOf(name)]);
    const list = async (query: Partial<Parameters<ObjectStore["list"]>[0]>) =>
      (await store.list({ prefix: "", limit: 10, ...query })).map(({ name }) => name);
    expect(await store.list({ prefix: "o/0/", limit: 10 })).toEqual([
      { name: "o/0/a", bytes: 5 },
      { name: "o/0/b", bytes: 5 },
    ]);
    expect(await list({})).toEqual(names);
    expect(await list({ prefix: "o/" })).toEqual(names.slice(2));
    expect(await list({ prefix: "o/", after: "o/0/b" })).toEqual(names.slice(4));
    expect(await list({ prefix: "o/1", after: "o/0/b", limit: 1 })).toEqual(["o/1/a"]);
    expect(await list({ prefix: "o/", after: "o/1/b" })).toEqual(["o/1/c", "o/2/a"]);
    expect(await list({ prefix: "p/" })).toEqual([]);
    await store.delete(["o/0/a", "o/0/b", "o/0/missing", "o/9/missing"]);
    expect(await list({ prefix: "o/" })).toEqual(names.slice(4));
    await store.put("o/0/a", [bytesOf("again")]);
    expect(await list({ prefix: "o/", limit: 1 })).toEqual(["o/0/a"]);
  });

  it("stores and returns megabytes in many parts", async () => {
    const store = await open();
    const blocks = Array.from({ length: 3000 }, (_, index) =>
      new Uint8Array(1000 + index).fill(index),
    );
    await store.put("o/large", blocks);
    const stored = await store.read("o/large", { last: 10_000_000 });
    expect(Buffer.from(stored).equals(Buffer.concat(blocks))).toBe(true);
  });
};
