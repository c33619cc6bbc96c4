import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createHeartbeatSender, createHeartbeatTurns } from "./heartbeat-sender.ts";
import { ManagementError } from "./management-error.ts";

const answer = (nextSeconds: number) => ({
  server_time: "2026-06-01T12:00:00.000Z",
  next_heartbeat_seconds: nextSeconds,
  desired_config: null,
  renew_now: false,
});

/** Answers each heartbeat by the next entry of `script`, then with 60 s; returns the seconds at which heartbeats were sent. */
const play = async (script: (() => ReturnType<typeof answer>)[], forSeconds: number) => {
  const clock = createTestClock();
  const start = clock.now();
  const sent: number[] = [];
  const stop = new AbortController();
  const log = createTestLog();
  const failures: (string | undefined)[] = [];
  const heartbeats = createHeartbeatSender({
    send: async () => {
      sent.push((clock.now() - start) / 1000);
      return (script.shift() ?? (() => answer(60)))();
    },
    skewSeconds: () => 0,
    intervalSeconds: 60,
    lastSuccessAt: null,
    turns: createHeartbeatTurns(clock),
    clock,
    entropy: createSeededEntropy(),
    log,
    onAnswer: () => undefined,
    onFailure: (code) => void failures.push(code),
  });
  const done = heartbeats.run(stop.signal);
  await clock.advance(forSeconds * 1000);
  stop.abort();
  await done;
  return {
    sent,
    log,
    failures,
    status: heartbeats.status(),
    gaps: sent.slice(1).map((at, index) => at - (sent[index] ?? 0)),
  };
};

const refuse = (retryAfterSeconds?: number) => () => {
  throw new ManagementError({
    code: "database_unavailable",
    message: "the database is unavailable",
    action: "retry",
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
};

it("sends the first at once and the rest every 60 s ±10 %, not in step", async () => {
  const { sent, gaps } = await play([], 1200);
  expect(sent[0]).toBe(0);
  expect(gaps.length).toBeGreaterThan(15);
  for (const gap of gaps) expect(Math.abs(gap - 60)).toBeLessThanOrEqual(6);
  expect(new Set(gaps).size).toBeGreaterThan(10);
});

it("uses core's interval after the first answer", async () => {
  const { gaps } = await play(
    Array.from({ length: 20 }, () => () => answer(10)),
    100,
  );
  expect(gaps.length).toBeGreaterThan(7);
  for (const gap of gaps) expect(Math.abs(gap - 10)).toBeLessThanOrEqual(1);
});

it("logs and reports a failure, does not repeat the heartbeat, and waits for Retry-After", async () => {
  const { gaps, log, failures, status } = await play([refuse(), refuse(200)], 400);
  expect(failures).toEqual(["database_unavailable", "database_unavailable"]);
  expect(status).toEqual({ lastSuccessAt: expect.any(Number), lastError: null });
  expect(Math.abs((gaps[0] ?? 0) - 60)).toBeLessThanOrEqual(6);
  expect(gaps[1]).toBeCloseTo(200);
  expect(log.lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
    "warn heartbeat failed",
    "warn heartbeat failed",
    "info heartbeats reach core again",
  ]);
});

it("waits for Retry-After alone after `rate_limited`, since the newest report is not known yet", async () => {
  const limited = () => {
    throw new ManagementError({
      code: "rate_limited",
      message: "x",
      action: "retry",
      retryAfterSeconds: 10,
    });
  };
  const { sent } = await play([limited], 20);
  expect(sent).toEqual([0, 10]);
});

it("stops at once during a wait", async () => {
  const { sent } = await play([], 1);
  expect(sent).toEqual([0]);
});
