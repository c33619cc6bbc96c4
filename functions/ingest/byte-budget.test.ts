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
  it("pauses reading from three quarters of the limit on, rejects beyond it, and resumes", async () => {
    const budget = createByteBudget(100);
    const { signal } = new AbortController();
    expect(budget.reserve(74)).toBe(true);
    expect(budget.untilReadable(signal)).toBeUndefined();
    expect(budget.reserve(26)).toBe(true);
    expect(budget.reserve(1)).toBe(false);
    const paused = budget.untilReadable(signal);
    expect(await isSettled(paused)).toBe(false);
    budget.release(25);
    expect(await isSettled(paused)).toBe(false);
    budget.release(1);
    expect(await isSettled(paused)).toBe(true);
    budget.release(74);
    expect(budget.used()).toBe(0);
  });

  it("counts incomplete messages in the limit, and pauses no reading for them", () => {
    const budget = createByteBudget(100);
    const { signal } = new AbortController();
    expect(budget.reserve(90, "incomplete")).toBe(true);
    expect(budget.untilReadable(signal)).toBeUndefined();
    expect(budget.reserve(11)).toBe(false);
    budget.release(80, "incomplete");
    expect(budget.reserve(75)).toBe(true);
    expect(budget.untilReadable(signal)).toBeDefined();
    budget.release(10, "incomplete");
    expect(budget.used()).toBe(75);
  });

  it("reserves a frame larger than the limit when nothing else is reserved, so that no frame waits for ever", () => {
    const budget = createByteBudget(100);
    expect(budget.reserve(150)).toBe(true);
    expect(budget.reserve(1)).toBe(false);
  });

  it("rejects a paused reader when its stream ends", async () => {
    const budget = createByteBudget(100);
    budget.reserve(100);
    const stream = new AbortController();
    const paused = budget.untilReadable(stream.signal);
    stream.abort(new Error("ended"));
    await expect(paused).rejects.toThrow("ended");
  });
});
