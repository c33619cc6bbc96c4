import { expect, it } from "vitest";
import { createPlaces } from "./places.ts";

it("gives each key so many places, and each place back once", () => {
  const places = createPlaces(2);
  const [first, second] = [places("ada"), places("ada")];
  expect([places("ada"), places("grace")]).toEqual([null, expect.any(Function)]);
  first?.();
  first?.();
  expect([places("ada"), places("ada")]).toEqual([expect.any(Function), null]);
  second?.();
  expect(places("ada")).not.toBeNull();
});
