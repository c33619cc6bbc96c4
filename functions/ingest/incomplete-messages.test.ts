import { afterEach, beforeEach, expect, it } from "vitest";
import { createTestClock, type TestClock } from "#tests/fakes/clock.ts";
import {
  type ByteBudget,
  createByteBudget,
  createIncompleteMessages,
  type IncompleteMessages,
} from "./byte-budget.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const second = 1_000;

let clock: TestClock;
let budget: ByteBudget;
let incomplete: IncompleteMessages;
let watching: AbortController;
beforeEach(() => {
  clock = createTestClock();
  budget = createByteBudget(10_000_000);
  incomplete = createIncompleteMessages({ budget, clock, identityBytesMax: 1_000_000 });
  watching = new AbortController();
  void incomplete.watch(watching.signal);
});
afterEach(() => watching.abort());

/** A call whose sender writes as the test says. `reading` resolves with the code of what ends it. */
const begin = (identity = "a") => {
  const ended = new AbortController();
  const reception = incomplete.begin(identity, ended.signal);
  const sent: (Bytes | null)[] = [];
  let arrived = Promise.withResolvers<void>();
  const body = async function* () {
    for (;;) {
      while (sent.length === 0) await arrived.promise;
      const chunk = sent.shift();
      if (!chunk) return;
      yield chunk;
    }
  };
  let result: string | undefined;
  /** What the reader does with a chunk: the bytes that it holds then, and whether a message ended. */
  let take: (chunk: Bytes) => [bytes: number, isNew: boolean] = () => [0, true];
  const read = async () => {
    for await (const chunk of reception.chunks(body())) reception.hold(...take(chunk));
    return "ended";
  };
  void read().then(
    (value) => (result = value),
    (error: { code: string }) => (result = error.code),
  );
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    ended,
    result: () => result,
    send: async (bytes: number | null, held: [bytes: number, isNew: boolean] = [0, true]) => {
      take = () => held;
      sent.push(bytes === null ? null : new Uint8Array(bytes));
      arrived.resolve();
      arrived = Promise.withResolvers();
      await settle();
    },
  };
};

it("ends a call whose first message does not begin within 15 s", async () => {
  const call = begin();
  await clock.advance(14 * second);
  expect(call.result()).toBeUndefined();
  await clock.advance(2 * second);
  expect(call.result()).toBe("body_timeout");
});

it("ends a call whose message stops for 15 s, however fast it was before", async () => {
  const call = begin();
  await call.send(900_000, [900_000, false]);
  await clock.advance(14 * second);
  expect(call.result()).toBeUndefined();
  expect(budget.used()).toBe(900_000);
  await clock.advance(2 * second);
  expect(call.result()).toBe("body_timeout");
  // Although nobody has said that its connection has ended.
  expect(budget.used()).toBe(0);
});

it("ends a call whose message drips, and keeps one of a slow link", async () => {
  const dripping = begin("a");
  const slow = begin("b");
  for (let seconds = 1; seconds <= 60; seconds++) {
    await clock.advance(second);
    await dripping.send(1, [seconds, false]);
    await slow.send(16_384, [seconds * 16_384, false]);
  }
  expect(dripping.result()).toBe("body_timeout");
  expect(slow.result()).toBeUndefined();
  await slow.send(10, [0, true]);
  await slow.send(null);
  expect(slow.result()).toBe("ended");
});

it("never ends a call that waits between messages", async () => {
  const call = begin();
  await call.send(100);
  await clock.advance(3_600 * second);
  expect(call.result()).toBeUndefined();
  await call.send(100, [50, true]);
  await clock.advance(16 * second);
  expect(call.result()).toBe("body_timeout");
});

it("counts only the time in which core waits for bytes", async () => {
  const { signal } = new AbortController();
  const reception = incomplete.begin("a", signal);
  const chunks = reception.chunks(
    (async function* () {
      yield new Uint8Array(1);
      yield new Uint8Array(1);
    })(),
  );
  for await (const _ of chunks) {
    reception.hold(1, false);
    await clock.advance(60 * second);
  }
});

it("keeps the bytes of an incomplete message in the budget until it is whole, its call ends, or it is rejected", async () => {
  const whole = begin("a");
  const cut = begin("b");
  await whole.send(600, [600, false]);
  await cut.send(500, [500, false]);
  expect(budget.used()).toBe(1_100);
  await whole.send(400, [0, true]);
  expect(budget.used()).toBe(500);
  cut.ended.abort();
  expect(budget.used()).toBe(0);
});

it("rejects what exceeds the bound of its identity with overloaded, and serves other identities", async () => {
  const one = begin("a");
  const other = begin("a");
  const host = begin("b");
  await one.send(1, [900_000, false]);
  await other.send(1, [100_001, false]);
  expect(other.result()).toBe("overloaded");
  await host.send(1, [900_000, false]);
  expect(host.result()).toBeUndefined();
  expect(budget.used()).toBe(1_800_000);
});

it("lets one message be larger than the bound of its identity, and rejects it when it exceeds the budget", async () => {
  const large = begin("a");
  const rest = begin("b");
  await large.send(1, [900_000, false]);
  await large.send(1, [9_000_000, false]);
  expect(large.result()).toBeUndefined();
  await rest.send(1, [2_000_000, false]);
  expect(rest.result()).toBe("overloaded");
});
