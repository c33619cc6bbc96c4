import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import type { Step } from "../scenario/steps.ts";
import type { DrivenHost } from "./driven-host.ts";
import { createMeasurements } from "./measurements.ts";
import { createPlayer, createSchedule, EnrollmentRefused } from "./player.ts";
import { WireError } from "./wire.ts";

it("a schedule returns items in order of time, and of equal times in the order of insertion", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 20 }), { maxLength: 100 }), (times) => {
      const schedule = createSchedule<{ at: number; order: number }>();
      for (const [order, at] of times.entries()) schedule.add({ at, order });
      const taken = Array.from({ length: times.length }, () => schedule.take());
      expect(taken.map((due) => [due?.at, due?.order])).toEqual(
        [...times.entries()]
          .sort((a, b) => a[1] - b[1] || a[0] - b[0])
          .map(([order, at]) => [at, order]),
      );
      expect(schedule.take()).toBeUndefined();
    }),
  );
});

describe("a player", () => {
  const forwards = (times: readonly number[]): Step[] =>
    times.map((at) => ({ at, kind: "forward", certificate: 0 }));
  const measurements = (clock: ReturnType<typeof createTestClock>) =>
    createMeasurements({ clock, hosts: 1, progress: () => undefined });
  /** A host whose steps take `takesMs` each. */
  const hostOn = (
    clock: ReturnType<typeof createTestClock>,
    begun: [string, number][],
    name: string,
    takesMs: number,
  ) =>
    ({
      host: {},
      async perform() {
        begun.push([name, clock.now()]);
        await clock.sleep(takesMs);
        if (name === "bad") throw new WireError("econnrefused");
        return { outcome: "done", at: clock.now() };
      },
    }) as unknown as DrivenHost;

  it("performs each host's steps one by one in order, none before its time, and counts lateness and failures", async () => {
    const clock = createTestClock(0);
    const begun: [string, number][] = [];
    const measure = measurements(clock);
    const { add, play } = createPlayer({
      clock,
      measure,
      concurrency: 8,
      ratePerSecond: undefined,
    });
    const parts = Object.entries({
      slow: [10, 20, 30],
      quick: [15, 100],
      bad: [12],
      later: [500],
    }).map(([name, times]) => ({
      driven: hostOn(clock, begun, name, name === "slow" ? 50 : 1),
      steps: forwards(times).values(),
      times: [] as number[],
    }));
    for (const part of parts) add(part);
    const played = play(400, new AbortController().signal);
    await clock.advance(400);
    await played;
    expect(begun).toEqual([
      ["slow", 10],
      ["bad", 12],
      ["quick", 15],
      ["slow", 60],
      ["quick", 100],
      ["slow", 110],
    ]);
    expect(parts.map(({ times }) => times)).toEqual([[60, 110, 160], [16, 101], [Number.NaN], []]);
    expect(measure.report()).toMatchObject({
      operations: { forward: { count: 6, failed: 1 } },
      failures: { econnrefused: 1 },
      late_ms: { max: 80 },
    });
  });

  /** A player with a host that enrolls at 10 and forwards at 20; `refusals` are core's first responses to its enrollment. */
  const enrolling = (refusals: readonly WireError[], times: number[] | undefined) => {
    const clock = createTestClock(0);
    const measure = measurements(clock);
    const player = createPlayer({ clock, measure, concurrency: 8, ratePerSecond: undefined });
    const begun: [string, number][] = [];
    const left = [...refusals];
    const driven = {
      host: {},
      async perform({ kind }: Step) {
        begun.push([kind, clock.now()]);
        const refusal = left.shift();
        if (refusal) throw refusal;
        return { outcome: "done", at: clock.now() };
      },
    } as unknown as DrivenHost;
    const steps: Step[] = [{ at: 10, kind: "enroll", ttl: "usual" }, ...forwards([20])];
    player.add({ driven, steps: steps.values(), times });
    return { clock, measure, begun, ...player };
  };

  it("retries an enrollment after a transient failure, with backoff, and then plays the rest of the timeline", async () => {
    const busy = new WireError("database_unavailable", { isTransient: true });
    const times: number[] = [];
    const { clock, measure, begun, play } = enrolling([busy, busy, busy], times);
    const played = play(60_000, new AbortController().signal);
    await clock.advance(60_000);
    await played;
    expect(begun).toEqual([
      ["enroll", 10],
      ["enroll", 1010],
      ["enroll", 3010],
      ["enroll", 7010],
      ["forward", 7010],
    ]);
    expect(times).toEqual([7010, 7010]);
    expect(measure.report()).toMatchObject({
      operations: { enroll: { count: 4, failed: 3 } },
      failures: { database_unavailable: 3 },
    });
  });

  it("ends when core would reject every host's enrollment, but not for a fleet that is only kept alive", async () => {
    for (const code of ["token_invalid", "identity_exists"]) {
      const first = enrolling([new WireError(code)], []);
      const ended = first.play(400, new AbortController().signal).catch((error: unknown) => error);
      await first.clock.advance(400);
      expect(await ended).toBeInstanceOf(EnrollmentRefused);
      expect(await ended).toHaveProperty("message", expect.stringContaining(`${code}: `));
      expect(first.begun).toEqual([["enroll", 10]]);
    }
    const kept = enrolling([new WireError("token_invalid")], undefined);
    const played = kept.play(400, new AbortController().signal);
    await kept.clock.advance(400);
    await played;
    expect(kept.begun.map(([kind]) => kind)).toEqual(["enroll", "forward"]);
  });

  it("continues after identity_exists if an earlier response of the same enrollment was lost", async () => {
    const lost = new WireError("timeout", { isTransient: true });
    const { clock, begun, play } = enrolling([lost, new WireError("identity_exists")], []);
    const played = play(60_000, new AbortController().signal);
    await clock.advance(60_000);
    await played;
    expect(begun.map(([kind]) => kind)).toEqual(["enroll", "enroll", "forward"]);
  });

  it("drops heartbeats and frames that a kept fleet missed while its machine slept", async () => {
    const clock = createTestClock(0);
    const begun: [string, number][] = [];
    const { add, play } = createPlayer({
      clock,
      measure: measurements(clock),
      concurrency: 8,
      ratePerSecond: undefined,
    });
    const times = Array.from({ length: 100 }, (_, index) => index * 20_000);
    add({
      driven: hostOn(clock, begun, "kept", 1),
      steps: forwards(times).values(),
      times: undefined,
    });
    clock.set(1_000_000);
    const played = play(1_040_000, new AbortController().signal);
    await clock.advance(60_000);
    await played;
    expect(begun.map(([, at]) => at)).toEqual([
      1_000_000, 1_000_001, 1_000_002, 1_020_000, 1_040_000,
    ]);
  });

  it("obeys the limits of concurrency and rate", async () => {
    const begin = async (limits: { concurrency: number; ratePerSecond: number | undefined }) => {
      const clock = createTestClock(0);
      const begun: [string, number][] = [];
      const { add, play } = createPlayer({ clock, measure: measurements(clock), ...limits });
      for (const name of ["a", "b", "c", "d"])
        add({ driven: hostOn(clock, begun, name, 250), steps: forwards([0]).values(), times: [] });
      const played = play(0, new AbortController().signal);
      await clock.advance(2000);
      await played;
      return begun.map(([, at]) => at);
    };
    expect(await begin({ concurrency: 2, ratePerSecond: undefined })).toEqual([0, 0, 250, 250]);
    expect(await begin({ concurrency: 8, ratePerSecond: 10 })).toEqual([0, 100, 200, 300]);
  });
});
