import { describe, expect, it } from "vitest";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { Problem } from "../problems.ts";
import type { Caller } from "./admission.ts";
import { createOpenStreams } from "./open-streams.ts";

const caller = (identity: string, fingerprintSha256 = identity): Caller => ({
  identity,
  fingerprintSha256,
  notAfter: Number.MAX_SAFE_INTEGER,
});

/** Streams whose callers are refused by what is in `revoked` and `expired`. */
const start = () => {
  const clock = createTestClock();
  const revoked = new Set<string>();
  const expired = new Set<string>();
  const failures: unknown[] = [];
  let rechecks = 0;
  let away = false;
  const streams = createOpenStreams({
    clock,
    onError: (cause) => failures.push(cause),
    admission: {
      recheck: async (callers) => {
        rechecks++;
        if (away) throw new Error("away");
        return new Map(
          callers
            .filter(({ fingerprintSha256 }) => revoked.has(fingerprintSha256))
            .map((one) => [one, new Problem("certificate_revoked")]),
        );
      },
      expiryFault: ({ fingerprintSha256 }) =>
        expired.has(fingerprintSha256) ? new Problem("certificate_expired") : undefined,
    },
  });
  const stop = new AbortController();
  const watched = streams.watch(stop.signal);
  return {
    clock,
    revoked,
    expired,
    failures,
    streams,
    rechecks: () => rechecks,
    setAway: (value: boolean) => {
      away = value;
    },
    stop: async () => {
      stop.abort();
      await watched;
    },
  };
};

describe("open streams", () => {
  it("G8: an identity has 8 at most, whatever its certificates, and others have theirs", async () => {
    const { streams, stop } = start();
    const open = Array.from({ length: 8 }, (_, index) => streams.enter(caller("a", `certificate ${index}`)));
    expect(() => streams.enter(caller("a"))).toThrow(expect.objectContaining({ code: "too_many_streams" }));
    streams.enter(caller("b"));
    open[0]?.leave();
    open[0]?.leave();
    streams.enter(caller("a"));
    expect(() => streams.enter(caller("a"))).toThrow(expect.objectContaining({ code: "too_many_streams" }));
    expect(streams.count()).toBe(9);
    await stop();
  });

  it("G4: a revoked caller is cut within 5 s, and nobody else", async () => {
    const { clock, revoked, streams, stop } = start();
    const [bad, good] = [streams.enter(caller("bad")), streams.enter(caller("good"))];
    await clock.advance(1_500);
    revoked.add("bad");
    await clock.advance(3_500);
    expect(bad.signal.reason).toMatchObject({ code: "certificate_revoked" });
    expect(good.signal.aborted).toBe(false);
    await stop();
  });

  it("G4: a notification cuts at once", async () => {
    const { clock, revoked, streams, stop } = start();
    const bad = streams.enter(caller("bad"));
    await clock.advance(0);
    revoked.add("bad");
    streams.hasten();
    await clock.advance(0);
    expect(bad.signal.aborted).toBe(true);
    await stop();
  });

  it("G4: an expired certificate is cut within 2 s, also while the database is away, and rechecks go on after it", async () => {
    const { clock, expired, revoked, streams, failures, setAway, stop } = start();
    const [old, bad] = [streams.enter(caller("old")), streams.enter(caller("bad"))];
    setAway(true);
    await clock.advance(10_000);
    expect(failures.length).toBeGreaterThan(0);
    expired.add("old");
    await clock.advance(2_000);
    expect(old.signal.reason).toMatchObject({ code: "certificate_expired" });
    setAway(false);
    revoked.add("bad");
    await clock.advance(5_000);
    expect(bad.signal.aborted).toBe(true);
    await stop();
  });
});
