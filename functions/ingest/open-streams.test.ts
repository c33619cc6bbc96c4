import { expect, it, onTestFinished } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { Problem } from "../problems.ts";
import { createOpenStreams, type OpenStream, type OpenStreams } from "./open-streams.ts";

const caller = (identity: string, fingerprintSha256 = identity) => ({
  identity,
  fingerprintSha256,
  notAfter: Number.MAX_SAFE_INTEGER,
});

/** Starts open streams whose callers are refused by `revoked` and `expired`. */
const start = () => {
  const clock = createTestClock();
  let stalledMs = 0;
  const revoked = new Set<string>();
  const expired = new Set<string>();
  const failures: unknown[] = [];
  let rechecks = 0;
  let unavailable = false;
  let latencyMs = 0;
  const streams = createOpenStreams({
    clock: { ...clock, monotonic: () => clock.monotonic() + stalledMs },
    entropy: createSeededEntropy(),
    onError: (cause) => failures.push(cause),
    admission: {
      recheck: async (callers) => {
        rechecks++;
        if (unavailable) throw new Error("the database is unavailable");
        const faults = new Map(
          callers
            .filter(({ fingerprintSha256 }) => revoked.has(fingerprintSha256))
            .map((one) => [one, new Problem("certificate_revoked")]),
        );
        if (latencyMs > 0) await clock.sleep(latencyMs);
        return faults;
      },
      expiryFault: ({ fingerprintSha256 }) =>
        expired.has(fingerprintSha256) ? new Problem("certificate_expired") : undefined,
    },
  });
  const stop = new AbortController();
  const watched = streams.watch(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await watched;
  });
  return {
    clock,
    revoked,
    expired,
    failures,
    streams,
    rechecks: () => rechecks,
    /** Makes the next timer late by as much. */
    stall: (ms: number) => {
      stalledMs += ms;
    },
    /** Makes rechecks take so long, each. */
    setLatency: (ms: number) => {
      latencyMs = ms;
    },
    setUnavailable: (value: boolean) => {
      unavailable = value;
    },
  };
};

const enterMany = (streams: OpenStreams, count: number) =>
  Array.from({ length: count }, (_, index) => streams.enter(caller(`host ${index}`)));
const expectCode = ({ signal }: OpenStream, code: string) =>
  expect(signal.reason).toMatchObject({ code });
const countEnded = (open: readonly OpenStream[]) =>
  open.filter(({ signal }) => signal.aborted).length;

it("Q12: reopen with database_unavailable once the database was restored, and others open meanwhile", async () => {
  const { streams } = start();
  const ended = streams.enter(caller("before"));
  streams.reopen();
  const opened = streams.enter(caller("after"));
  expect([ended.signal.reason, opened.signal.aborted]).toMatchObject([
    { code: "database_unavailable" },
    false,
  ]);
});

it("spread the return of those that end together, 200 hosts a second", async () => {
  const { clock, streams } = start();
  const open = enterMany(streams, 2_000);
  streams.reopen();
  await clock.advance(20);
  const delays = open.map(({ signal }) =>
    Number((signal.reason as Problem).options.retryAfterSeconds),
  );
  const perSecond = Array.from(
    { length: 10 },
    (_, at) => delays.filter((delay) => Math.floor(delay) === at).length,
  );
  expect(Math.min(...perSecond)).toBeGreaterThan(150);
});

it("G8: limits an identity to 8 streams, whatever its certificates, and other identities are independent", async () => {
  const { streams } = start();
  const open = Array.from({ length: 8 }, (_, index) =>
    streams.enter(caller("a", `certificate ${index}`)),
  );
  expect(() => streams.enter(caller("a"))).toThrow(
    expect.objectContaining({ code: "too_many_streams" }),
  );
  streams.enter(caller("b"));
  open[0]?.leave();
  open[0]?.leave();
  streams.enter(caller("a"));
  expect(() => streams.enter(caller("a"))).toThrow(
    expect.objectContaining({ code: "too_many_streams" }),
  );
  expect(streams.count()).toBe(9);
});

it("G4: a notification ends a revoked stream at once", async () => {
  const { clock, revoked, streams } = start();
  const bad = streams.enter(caller("bad"));
  await clock.advance(0);
  revoked.add("bad");
  streams.triggerRecheck();
  await clock.advance(0);
  expect(bad.signal.aborted).toBe(true);
});

it("G4: ends a stream within 2 s of its certificate's expiry, also while the database is unavailable", async () => {
  const { clock, expired, streams, failures, setUnavailable } = start();
  const old = streams.enter(caller("old"));
  setUnavailable(true);
  await clock.advance(3_000);
  expect(failures.length).toBeGreaterThan(0);
  expired.add("old");
  await clock.advance(1_000);
  expectCode(old, "certificate_expired");
});

it("G4: ends each stream at its own expiry, whatever the order in which they opened, and whichever have left", async () => {
  const { clock, expired, streams } = start();
  const enter = (name: string, notAfter: number) => streams.enter({ ...caller(name), notAfter });
  const third = enter("third", 3);
  const first = enter("first", 1);
  const second = enter("second", 2);
  const expire = async (name: string) => {
    expired.add(name);
    await clock.advance(1_000);
    return [first, second, third].map(({ signal }) => signal.aborted);
  };
  expect(await expire("first")).toEqual([true, false, false]);
  second.leave();
  expect(await expire("second")).toEqual([true, false, false]);
  expect(await expire("third")).toEqual([true, false, true]);
});

it("D8: ends no stream after a long turn of the event loop before it had time to recheck, and all if it cannot", async () => {
  const { clock, streams, stall, setUnavailable } = start();
  const open = streams.enter(caller("a"));
  await clock.advance(3_000);
  stall(60_000);
  await clock.advance(10_000);
  expect(open.signal.aborted).toBe(false);
  setUnavailable(true);
  await clock.advance(1_000);
  stall(60_000);
  await clock.advance(4_500);
  expectCode(open, "database_unavailable");
});

it("D8: counts 4.5 s without what turns of the event loop take beyond 0.1 s each", async () => {
  const { clock, streams, stall, setUnavailable } = start();
  const open = streams.enter(caller("a"));
  await clock.advance(2_000);
  setUnavailable(true);
  for (let turn = 0; turn < 40; turn++) {
    stall(300);
    await clock.advance(100);
  }
  expect(open.signal.aborted).toBe(false);
  await clock.advance(500);
  expectCode(open, "database_unavailable");
});

it("D8: ends every stream once no recheck has succeeded for 4.5 s, and resumes rechecks after", async () => {
  const { clock, revoked, streams, setUnavailable } = start();
  const unconfirmed = streams.enter(caller("a"));
  await clock.advance(10_000);
  expect(unconfirmed.signal.aborted).toBe(false);
  setUnavailable(true);
  await clock.advance(4_500);
  expectCode(unconfirmed, "database_unavailable");
  setUnavailable(false);
  await clock.advance(5_000);
  const next = streams.enter(caller("a"));
  await clock.advance(10_000);
  expect(next.signal.aborted).toBe(false);
  revoked.add("a");
  await clock.advance(3_000);
  expectCode(next, "certificate_revoked");
});

it("G4: ends revoked streams within 5 s, and no others, while rechecks take up to 2.4 s: they overlap", async () => {
  const { clock, revoked, streams, setLatency } = start();
  const bad = streams.enter(caller("bad"));
  const good = streams.enter(caller("good"));
  setLatency(2_400);
  await clock.advance(20_000);
  expect([bad.signal.aborted, good.signal.aborted]).toEqual([false, false]);
  revoked.add("bad");
  await clock.advance(5_000);
  expectCode(bad, "certificate_revoked");
  expect(good.signal.aborted).toBe(false);
  setLatency(4_500);
  await clock.advance(5_000);
  expectCode(good, "database_unavailable");
});

it("D8: ends unconfirmed streams 100 in a turn of the event loop, and accepts nothing from the others meanwhile", async () => {
  const { clock, streams, setUnavailable } = start();
  const open = enterMany(streams, 250);
  setUnavailable(true);
  await clock.advance(4_499);
  expect([countEnded(open), open.every((stream) => stream.mayAccept())]).toEqual([0, true]);
  await clock.advance(1);
  expect([countEnded(open), open[0]?.mayAccept()]).toEqual([100, false]);
  expect([open[249]?.mayAccept(), open[249]?.signal.reason.code]).toEqual([
    false,
    "database_unavailable",
  ]);
  const later = streams.enter(caller("later"));
  await clock.advance(1);
  expect(countEnded(open)).toBe(201);
  await clock.advance(1);
  expect([countEnded(open), later.mayAccept()]).toEqual([250, true]);
});

it("D8: a late recheck confirms the streams that it asked for and that have not ended, until 4.5 s after it began", async () => {
  const { clock, streams, setLatency, setUnavailable } = start();
  const open = enterMany(streams, 250);
  setLatency(2_501);
  await clock.advance(2_500);
  setUnavailable(true);
  const later = streams.enter(caller("later"));
  await clock.advance(2_000);
  expect(countEnded(open)).toBe(100);
  await clock.advance(10);
  expect([countEnded(open), later.signal.aborted, open[249]?.mayAccept()]).toEqual([
    100,
    true,
    true,
  ]);
  await clock.advance(1_989);
  expect(countEnded(open)).toBe(100);
  await clock.advance(3);
  expect(countEnded(open)).toBe(250);
});

it("D8: a recheck that began 4.5 s ago confirms no stream that is yet to end", async () => {
  const { clock, streams, stall, setLatency, setUnavailable } = start();
  const open = enterMany(streams, 250);
  setLatency(2_501);
  await clock.advance(2_500);
  setUnavailable(true);
  await clock.advance(2_000);
  stall(2_000);
  await clock.advance(2);
  expect(countEnded(open)).toBe(250);
});

it("D8: gives streams that open after all were ended as long until a recheck succeeds", async () => {
  const { clock, streams, setUnavailable } = start();
  const before = streams.enter(caller("before"));
  setUnavailable(true);
  await clock.advance(4_500);
  expectCode(before, "database_unavailable");
  const after = streams.enter(caller("after"));
  await clock.advance(4_400);
  expect(after.signal.aborted).toBe(false);
  await clock.advance(100);
  expectCode(after, "database_unavailable");
});

it("let go of others while those before still wait for their last answers", () => {
  const { streams } = start();
  const open = enterMany(streams, 50);
  streams.release(20);
  streams.release(20);
  expect(countEnded(open)).toBe(40);
  streams.release(20);
  expect(countEnded(open)).toBe(50);
  for (const stream of open) expectCode(stream, "stream_moved");
});
