import { expect, it } from "vitest";
import { objectIdOf, objectNameOf } from "./object-store.ts";

it("names objects in the order of their ids, and reads the id of a name", () => {
  const ids = [0, 1, 4095, 4096, 2 ** 32, Number.MAX_SAFE_INTEGER];
  const names = ids.map((id) => objectNameOf(id, "00ff"));
  expect(names.toSorted()).toEqual(names);
  expect(names[3]).toBe("o/0000000000001/000-00ff");
  expect(names.map(objectIdOf)).toEqual(ids);
  const others = ["svc-store.json", "o/1/000-00", "o/0000000000001/000-00/a", "p/o/1"];
  expect(others.map(objectIdOf)).toEqual([null, null, null, null]);
});
