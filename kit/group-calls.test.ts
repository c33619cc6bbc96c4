import { expect, it } from "vitest";
import { type GroupOptions, groupCalls } from "./group-calls.ts";

/** Groups whose runs the test ends. */
const createGroup = (over: Partial<GroupOptions<string, string>> = {}) => {
  const runs: { items: readonly string[]; end(error?: unknown): Promise<void> }[] = [];
  const call = groupCalls({
    run: (items) =>
      new Promise((resolve, reject) => {
        const end = async (error?: unknown) => {
          if (error === undefined) resolve(items.map((item) => item.toUpperCase()));
          else reject(error);
          await settle();
        };
        runs.push({ items, end });
      }),
    keyOf: (item) => item[0] ?? "",
    concurrency: 1,
    itemsMax: 3,
    isolate: () => false,
    ...over,
  });
  return {
    call,
    /** The runs so far, each with its items. */
    expectRuns: (...expected: string[]) =>
      expect(runs.map((run) => run.items.join(" "))).toEqual(expected),
    /** Ends these runs, one after the other. */
    end: async (...numbers: number[]) => {
      for (const number of numbers) await runs[number]?.end();
    },
    fail: (number: number, message: string) => runs[number]?.end(new Error(message)),
  };
};
const settle = () => new Promise((settled) => setImmediate(settled));
/** Returns how each call ended. */
const statusesOf = async (outcomes: Promise<PromiseSettledResult<string>[]>) =>
  (await outcomes).map(({ status }) => status);

it("starts the first call at once and groups later calls, up to the limit", async () => {
  const { call, expectRuns, end } = createGroup();
  const answers = ["a", "b", "c", "d", "e"].map(call);
  expectRuns("a");
  await end(0);
  expectRuns("a", "b c d");
  await end(1, 2);
  expect(await Promise.all(answers)).toEqual(["A", "B", "C", "D", "E"]);
});

it("never runs two items of one key concurrently, and keeps their order", async () => {
  const { call, expectRuns, end } = createGroup({ concurrency: 2 });
  const answers = ["a1", "a2", "b1", "a3", "b2"].map(call);
  expectRuns("a1", "b1");
  await end(1);
  expectRuns("a1", "b1", "b2");
  await end(0);
  expectRuns("a1", "b1", "b2", "a2");
  await end(2, 3, 4);
  expect(await Promise.all(answers)).toEqual(["A1", "A2", "B1", "A3", "B2"]);
});

it("fails the whole group, or with `isolate` only the item that fails on its own", async () => {
  const together = createGroup();
  const outcomes = Promise.allSettled(["a", "b", "c"].map(together.call));
  await together.end(0);
  await together.fail(1, "away");
  expect(await statusesOf(outcomes)).toEqual(["fulfilled", "rejected", "rejected"]);

  const alone = createGroup({ isolate: () => true });
  const isolated = Promise.allSettled(["a", "b", "c"].map(alone.call));
  await alone.end(0);
  await alone.fail(1, "bad");
  await alone.fail(2, "bad");
  await alone.end(3);
  expect(await statusesOf(isolated)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  alone.expectRuns("a", "b c", "b", "c");
});

it("with a pause, starts the first call at once and gathers later ones until the pause ends or a run is full", async () => {
  const pauses: (() => void)[] = [];
  const { call, expectRuns, end } = createGroup({
    concurrency: 3,
    pause: () => new Promise<void>((resolve) => pauses.push(resolve)),
  });
  const endPause = async () => {
    pauses.shift()?.();
    await settle();
  };
  const answers = ["a", "b", "c"].map(call);
  expectRuns("a");
  await endPause();
  expectRuns("a", "b c");
  answers.push(...["d", "e", "f"].map(call));
  expectRuns("a", "b c", "d e f");
  await end(0, 1, 2);
  await endPause();
  answers.push(call("g"));
  expectRuns("a", "b c", "d e f", "g");
  await end(3);
  expect(await Promise.all(answers)).toEqual(["A", "B", "C", "D", "E", "F", "G"]);
});

it("rejects calls beyond the bound, and those that wait for a run that fails as a whole", async () => {
  const full = new Error("full");
  const { call, expectRuns, end, fail } = createGroup({ waiting: { max: 2, full: () => full } });
  const outcomes = Promise.allSettled(["a", "b", "c", "d"].map(call));
  await fail(0, "away");
  const reasons = (await outcomes).map((outcome) =>
    outcome.status === "rejected" ? outcome.reason.message : "",
  );
  expect(reasons).toEqual(["away", "away", "away", "full"]);
  expectRuns("a");
  const next = call("e");
  await end(1);
  expect(await next).toBe("E");
});

it("keeps the calls that wait when a run fails but another one has succeeded since it began", async () => {
  const { call, end, fail } = createGroup({ concurrency: 2, itemsMax: 1 });
  const outcomes = Promise.allSettled(["a", "b", "c", "d"].map(call));
  await end(1);
  await fail(0, "late");
  await end(2, 3);
  expect(await statusesOf(outcomes)).toEqual(["rejected", "fulfilled", "fulfilled", "fulfilled"]);
});

it("delays each run until it has gathered, and then takes the calls made meanwhile", async () => {
  const gathering: (() => void)[] = [];
  const gather = () => new Promise<void>((resolve) => gathering.push(resolve));
  const { call, expectRuns, end } = createGroup({ gather });
  const gathered = async () => {
    gathering.shift()?.();
    await settle();
  };
  const answers = ["a", "b"].map(call);
  await gathered();
  expectRuns("a b");
  answers.push(call("c"));
  await end(0);
  answers.push(call("d"));
  expectRuns("a b");
  await gathered();
  await end(1);
  expect(await Promise.all(answers)).toEqual(["A", "B", "C", "D"]);
  expectRuns("a b", "c d");
  // A call made while a run of its key is in flight waits for its end.
  const again = ["a1", "a2"].map(call);
  await gathered();
  await end(2);
  await gathered();
  await end(3);
  expect(await Promise.all(again)).toEqual(["A1", "A2"]);
});

it("lets calls that the bound exempts wait beyond it", async () => {
  const exempt = (item: string) => item.endsWith("!");
  const { call, end } = createGroup({
    waiting: { max: 1, full: () => new Error("full"), exempt },
  });
  const outcomes = Promise.allSettled(["a", "b", "c!", "d"].map(call));
  await end(0, 1);
  expect(await statusesOf(outcomes)).toEqual(["fulfilled", "fulfilled", "fulfilled", "rejected"]);
});
