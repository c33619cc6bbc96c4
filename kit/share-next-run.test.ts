import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { shareNextRun } from "./share-next-run.ts";

/** Runs that end when the test ends them, each with its number. */
const openRuns = () => {
  const ends: PromiseWithResolvers<number>[] = [];
  const call = shareNextRun(
    (_key: string) => {
      const end = Promise.withResolvers<number>();
      ends.push(end);
      return end.promise;
    },
    (key) => key,
  );
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return { ends, call, settle };
};

it("starts a run for the calls that arrive during another one, once that one has ended", async () => {
  const { ends, call, settle } = openRuns();
  const first = call("a");
  const others = [call("a"), call("a")];
  await settle();
  expect(ends).toHaveLength(1);

  ends[0]?.resolve(1);
  expect(await first).toBe(1);
  await settle();
  expect(ends).toHaveLength(2);
  const late = call("a");
  ends[1]?.resolve(2);
  expect(await Promise.all(others)).toEqual([2, 2]);
  await settle();
  ends[2]?.resolve(3);
  expect(await late).toBe(3);

  const alone = call("a");
  ends[3]?.resolve(4);
  expect(await alone).toBe(4);
});

it("shares nothing between keys", async () => {
  const { ends, call } = openRuns();
  const both = [call("a"), call("b")];
  expect(ends).toHaveLength(2);
  for (const [index, end] of ends.entries()) end.resolve(index);
  expect(await Promise.all(both)).toEqual([0, 1]);
});

it("starts the next run after one that fails, so that its error reaches only its own call", async () => {
  const { ends, call, settle } = openRuns();
  const first = call("a");
  const others = [call("a"), call("a")];
  ends[0]?.reject(new Error("the statement took too long"));
  await expect(first).rejects.toThrow("too long");
  await settle();
  expect(ends).toHaveLength(2);
  ends[1]?.resolve(2);
  expect(await Promise.all(others)).toEqual([2, 2]);
});

it("fails the calls that share a failed run, and starts anew afterwards", async () => {
  const { ends, call, settle } = openRuns();
  const first = call("a");
  const others = [call("a"), call("a")];
  ends[0]?.resolve(1);
  await first;
  await settle();
  ends[1]?.reject(new Error("the database is unavailable"));
  for (const failed of others) await expect(failed).rejects.toThrow("unavailable");
  const next = call("a");
  ends[2]?.resolve(3);
  expect(await next).toBe(3);
});

it("returns the result of a run to calls of the same key for as long as it is shared, in flight or ended, but no failure", async () => {
  const clock = createTestClock();
  const runs: PromiseWithResolvers<number>[] = [];
  const call = shareNextRun(
    (_key: string) => {
      const next = Promise.withResolvers<number>();
      runs.push(next);
      return next.promise;
    },
    (key) => key,
    { ms: 1000, clock },
  );
  const first = call("a");
  await clock.advance(400);
  const joined = call("a");
  runs[0]?.resolve(1);
  expect(await Promise.all([first, joined])).toEqual([1, 1]);
  await clock.advance(400);
  expect(await call("a")).toBe(1);
  expect(runs).toHaveLength(1);

  await clock.advance(200);
  const late = call("a");
  expect(runs).toHaveLength(2);
  await clock.advance(1000);
  const later = call("a");
  runs[1]?.reject(new Error("too long"));
  await expect(late).rejects.toThrow("too long");
  runs[2]?.resolve(3);
  expect(await later).toBe(3);
  const after = call("a");
  expect(await after).toBe(3);

  const failing = call("b");
  runs[3]?.reject(new Error("refused"));
  await expect(failing).rejects.toThrow("refused");
  const again = call("b");
  runs[4]?.resolve(5);
  expect(await again).toBe(5);
});
