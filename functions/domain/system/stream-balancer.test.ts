import { expect, it } from "vitest";
import type { CoreReport } from "#functions/store/system/system.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createStreamBalancer } from "./stream-balancer.ts";

const clock = createTestClock();

/** Returns cores with so many streams. `returnTo` chooses the core on which each host that was let go connects again. */
const startCores = (counts: number[], returnTo: (from: number, host: number) => number) => {
  let hosts = 0;
  const releasedAt: number[] = [];
  const ready = counts.map(() => true);
  const reportOf = (streams: number, at: number): CoreReport => ({
    id: `core-${at}`,
    machine: `core-${at}`,
    version: "1.2.3",
    startedAt: new Date(0),
    reportedAt: new Date(clock.now()),
    stoppedAt: null,
    checks: [
      {
        endpoint: "ingest",
        name: "committer",
        status: ready[at] ? "ready" : "not_ready",
        detail: "",
        since: "",
      },
    ],
    streams,
    clockAheadMs: 0,
    credentials: null,
    certificates: {},
  });
  const ticks = counts.map((_, at) =>
    createStreamBalancer(
      { clock, findReports: async () => counts.map(reportOf) },
      {
        id: `core-${at}`,
        count: () => counts[at] ?? 0,
        release: (count) => {
          for (let gone = 0; gone < count; gone += 1) {
            releasedAt.push(clock.monotonic());
            const to = returnTo(at, hosts++);
            counts[at] = (counts[at] ?? 0) - 1;
            counts[to] = (counts[to] ?? 0) + 1;
          }
        },
      },
    ),
  );
  const never = new AbortController().signal;
  /** Runs all ticks once; returns what they did. */
  const runRound = async () => {
    const done = Promise.all(ticks.map((tick) => tick(never)));
    await clock.advance(15_000);
    return done;
  };
  return { counts, ready, releasedAt, runRound };
};

const inTurn = (_from: number, host: number) => host % 3;
const back = (from: number) => from;

it("evens three cores after a rolling restart, at most 20 streams a second", async () => {
  const { counts, releasedAt, runRound } = startCores([600, 400, 0], inTurn);
  for (let round = 0; round < 8; round += 1) await runRound();
  expect(Math.max(...counts)).toBeLessThanOrEqual((1000 / 3) * 1.25);
  const perSecond = Map.groupBy(releasedAt, (at) => Math.floor(at / 1000));
  // Two cores have too many.
  expect(Math.max(...perSecond.values().map(({ length }) => length))).toBe(40);
  const before = releasedAt.length;
  await runRound();
  expect(releasedAt).toHaveLength(before);
});

it("moves nothing of a small fleet, of an even one, or to cores that are not ready", async () => {
  for (const counts of [
    [3, 0, 0],
    [120, 100, 100],
  ])
    expect(await startCores(counts, inTurn).runRound()).toEqual([undefined, undefined, undefined]);
  const { ready, runRound } = startCores([600, 0, 0], inTurn);
  ready.fill(false, 1);
  expect(await runRound()).toEqual([undefined, undefined, undefined]);
});

it("stops after two rounds without a gain, until there is a new core or an hour has passed", async () => {
  const cores = startCores([600, 0, 0], back);
  cores.ready[2] = false;
  for (let round = 0; round < 5; round += 1) await cores.runRound();
  expect(cores.releasedAt).toHaveLength(400);
  cores.ready[2] = true;
  await cores.runRound();
  expect(cores.releasedAt).toHaveLength(600);
  // A core that is ready again is not a new one.
  for (const isReady of [false, true, false, true]) {
    cores.ready[2] = isReady;
    await cores.runRound();
  }
  expect(cores.releasedAt).toHaveLength(800);
  await clock.advance(3_600_000);
  await cores.runRound();
  expect(cores.releasedAt).toHaveLength(1_000);
});
