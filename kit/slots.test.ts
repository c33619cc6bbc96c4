import { expect, it } from "vitest";
import { createSlots } from "./slots.ts";

it("limits the slots of each key, and releases each slot once", () => {
  const slots = createSlots(2);
  const first = slots("ada");
  const second = slots("ada");
  expect([slots("ada"), slots("grace")]).toEqual([null, expect.any(Function)]);
  first?.();
  first?.();
  expect([slots("ada"), slots("ada")]).toEqual([expect.any(Function), null]);
  second?.();
  expect(slots("ada")).not.toBeNull();
});
