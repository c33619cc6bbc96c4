import { afterEach, expect, it, vi } from "vitest";
import { systemClock } from "./clock.ts";

const day = 86_400_000;

afterEach(() => vi.useRealTimers());

it("sleeps longer than the 24.8 days of one timer of Node", async () => {
  vi.useFakeTimers();
  let isAwake = false;
  const slept = systemClock.sleep(30 * day).then(() => {
    isAwake = true;
  });
  await vi.advanceTimersByTimeAsync(30 * day - 1);
  expect(isAwake).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await slept;
});

it("ends a sleep when the signal aborts, whichever timer runs", async () => {
  vi.useFakeTimers();
  const stop = new AbortController();
  const slept = systemClock.sleep(60 * day, stop.signal);
  const ended = expect(slept).rejects.toThrow("stopped");
  await vi.advanceTimersByTimeAsync(26 * day);
  stop.abort(new Error("stopped"));
  await ended;
  expect(vi.getTimerCount()).toBe(0);
});
