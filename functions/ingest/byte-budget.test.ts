import { expect, it } from "vitest";
import { createFrameAcceptor } from "./accept-frame.ts";
import { createByteBudget } from "./byte-budget.ts";
import type { ExaminedFrame } from "./examine-frame.ts";

const isSettled = async (promise: Promise<void> | undefined) => {
  let settled = false;
  void promise?.then(
    () => (settled = true),
    () => (settled = true),
  );
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
};

it("pauses reading from three quarters of the limit on, rejects beyond it, and resumes", async () => {
  const budget = createByteBudget(100);
  const { signal } = new AbortController();
  expect(budget.reserve(74)).toBe(true);
  expect(budget.untilReadable("host", signal)).toBeUndefined();
  expect(budget.reserve(26)).toBe(true);
  expect(budget.reserve(1)).toBe(false);
  const paused = budget.untilReadable("host", signal);
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
  expect(budget.untilReadable("host", signal)).toBeUndefined();
  expect(budget.reserve(11)).toBe(false);
  budget.release(80, "incomplete");
  expect(budget.reserve(75)).toBe(true);
  expect(budget.untilReadable("host", signal)).toBeDefined();
  budget.release(10, "incomplete");
  expect(budget.used()).toBe(75);
});

it("O2: frees a frame that does not fit", async () => {
  const budget = createByteBudget(100);
  budget.reserve(90);
  let freed = 0;
  const accept = createFrameAcceptor({
    budget,
    sink: { commit: () => expect.fail("it does not fit") },
    observe: { committed: () => undefined },
  });
  const frame = { hostId: "host" } as ExaminedFrame["frame"];
  const sent = { frame, rejected: [], discarded: [], bytes: 11, release: () => void freed++ };
  await expect(accept(sent)).rejects.toMatchObject({ code: "overloaded" });
  expect(freed).toBe(1);
});

it("O2: pauses a host whose frames fill a quarter, and no other", async () => {
  const { signal } = new AbortController();
  const budget = createByteBudget(100);
  budget.reserve(25, "frame", "host");
  budget.reserve(24, "frame", "other");
  const paused = budget.untilReadable("host", signal);
  expect(paused).toBeDefined();
  expect(budget.untilReadable("other", signal)).toBeUndefined();
  budget.release(1, "frame", "host");
  await paused;
  expect(budget.untilReadable("host", signal)).toBeUndefined();
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
  const paused = budget.untilReadable("host", stream.signal);
  stream.abort(new Error("ended"));
  await expect(paused).rejects.toThrow("ended");
});
