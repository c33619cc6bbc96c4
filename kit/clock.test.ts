import { afterEach, expect, it, vi } from "vitest";
import { systemClock, timestampOf } from "./clock.ts";

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

it.each([
  ["2026-11-22 19:31:51+00", "2026-11-22T19:31:51.000Z"],
  ["2026-11-22 19:31:51.1+00", "2026-11-22T19:31:51.100Z"],
  ["2026-11-22 19:31:51.12+00", "2026-11-22T19:31:51.120Z"],
  ["2026-11-22 19:31:51.109+00", "2026-11-22T19:31:51.109Z"],
  ["2026-11-22 19:31:51.109999+00", "2026-11-22T19:31:51.109Z"],
  ["2026-11-22 19:31:51.1+02", "2026-11-22T17:31:51.100Z"],
  ["2026-11-22T19:31:51.109Z", "2026-11-22T19:31:51.109Z"],
])("writes %s as %s", (text, timestamp) => {
  expect(timestampOf(text)).toBe(timestamp);
});

it("rejects an infinite timestamp", () => {
  expect(() => timestampOf("-infinity")).toThrow(RangeError);
});
