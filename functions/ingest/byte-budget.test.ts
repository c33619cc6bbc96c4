import { describe, expect, it } from "vitest";
import { createByteBudget } from "./byte-budget.ts";

const isSettled = async (promise: Promise<void> | undefined): Promise<boolean> => {
  let settled = false;
  void promise?.then(
    () => (settled = true),
    () => (settled = true),
  );
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
};

describe("byte budget", () => {
  it("holds reading back from three quarters on, refuses beyond the whole, and lets go again", async () => {
    const budget = createByteBudget(100);
    const { signal } = new AbortController();
    expect(budget.take(74)).toBe(true);
    expect(budget.untilReadable(signal)).toBeUndefined();
    expect(budget.take(26)).toBe(true);
    expect(budget.take(1)).toBe(false);
    const held = budget.untilReadable(signal);
    expect(await isSettled(held)).toBe(false);
    budget.give(25);
    expect(await isSettled(held)).toBe(false);
    budget.give(1);
    expect(await isSettled(held)).toBe(true);
    budget.give(74);
    expect(budget.used()).toBe(0);
  });

  it("takes one frame larger than itself when nothing else is taken, so that it never waits for ever", () => {
    const budget = createByteBudget(100);
    expect(budget.take(150)).toBe(true);
    expect(budget.take(1)).toBe(false);
  });

  it("lets a reader that is held back go when its stream ends", async () => {
    const budget = createByteBudget(100);
    budget.take(100);
    const stream = new AbortController();
    const held = budget.untilReadable(stream.signal);
    stream.abort(new Error("gone"));
    await expect(held).rejects.toThrow("gone");
  });
});
