import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { IdentityLockedError } from "../identity/identity-directory.ts";
import { ManagementError } from "../management/management-error.ts";
import { createRenewals } from "./renewals.ts";

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const lifetimeMs = 20 * day;

/** A certificate of 20 days, by default 9 days old. Its renewal is due after 11 days and overdue after 16 2/3. */
const setUp = (script: readonly (() => void)[] = [], ageMs = 9 * day) => {
  const clock = createTestClock();
  const start = clock.now();
  const notBefore = start - ageMs;
  const plan = {
    notBefore,
    notAfter: notBefore + lifetimeMs,
    dueAt: notBefore + 11 * day,
    overdueAt: notBefore + (lifetimeMs * 5) / 6,
  };
  const attempts: number[] = [];
  const left = [...script];
  const renewals = createRenewals({
    plan,
    renew: async () => {
      attempts.push(clock.now() - start);
      left.shift()?.();
    },
    clock,
    entropy: createSeededEntropy(),
    log: createTestLog(),
    failures: 0,
  });
  const stop = new AbortController();
  let finished = false;
  const done = renewals.run(stop.signal).then(() => {
    finished = true;
  });
  const end = async () => {
    stop.abort();
    await done;
  };
  return { clock, plan, attempts, renewals, end, isDone: () => finished };
};

const fail =
  (action: "retry" | "reenroll" | "stop" | "fix_clock" = "retry", code = "unreachable") =>
  () => {
    throw new ManagementError({ code, action, message: "no" });
  };
const always = (failure: () => void) => Array.from({ length: 10_000 }, () => failure);

it("names no path of the credentials that it cannot store", async () => {
  const message = "EROFS: read-only file system, open '/etc/identity/tls.key'";
  const { clock, renewals, end } = setUp([
    () => {
      throw Object.assign(new Error(message), {
        code: "EROFS",
        path: "/etc/identity/tls.key",
        syscall: "open",
      });
    },
  ]);
  await clock.advance(2 * day);
  expect(renewals.status().lastError).toBe("the new credentials cannot be stored (EROFS)");
  await end();
});

it("renews once, at the planned time", async () => {
  const { clock, attempts, renewals, isDone, plan } = setUp();
  await clock.advance(2 * day - 1);
  expect(attempts).toEqual([]);
  expect(renewals.status()).toMatchObject({
    status: "ok",
    lastAttemptAt: null,
    nextAttemptAt: plan.dueAt,
  });
  await clock.advance(1);
  expect(attempts).toEqual([2 * day]);
  expect(isDone()).toBe(true);
});

it("renews at once when it is triggered, and otherwise not before the planned time", async () => {
  const { clock, attempts, renewals, isDone } = setUp();
  await clock.advance(hour);
  renewals.trigger();
  expect(renewals.status().status).toBe("due");
  await clock.advance(0);
  expect(attempts).toEqual([hour]);
  expect(isDone()).toBe(true);
});

it("retries after failures with growing pauses, reports them, and stops with the signal", async () => {
  const { clock, attempts, renewals, end, isDone } = setUp(always(fail()), 11 * day);
  await clock.advance(day);
  expect(attempts.length).toBeGreaterThan(24);
  expect(attempts.length).toBeLessThan(100);
  for (const [index, at] of attempts.slice(1).entries())
    expect(at - (attempts[index] ?? 0)).toBeGreaterThanOrEqual(1000);
  const { status, lastError, nextAttemptAt, lastAttemptAt } = renewals.status();
  expect([status, lastError]).toEqual(["retrying", "unreachable: no"]);
  expect(nextAttemptAt).toBeGreaterThan(lastAttemptAt ?? 0);
  await end();
  expect(isDone()).toBe(true);
});

it("N4: waits for Retry-After when core limits renewals, and does not report failed", async () => {
  const limited = () => {
    throw new ManagementError({
      code: "rate_limited",
      action: "retry",
      message: "no",
      retryAfterSeconds: 60,
    });
  };
  const { clock, attempts, renewals, isDone } = setUp([limited, limited], 11 * day);
  await clock.advance(59_999);
  expect(attempts).toEqual([0]);
  expect(renewals.status()).toMatchObject({ status: "retrying", lastError: "rate_limited: no" });
  await clock.advance(60_001);
  expect(attempts).toEqual([0, minute, 2 * minute]);
  expect(isDone()).toBe(true);
});

it("succeeds after failures once core is available", async () => {
  const { clock, attempts, isDone } = setUp([fail(), fail(), fail()], 11 * day);
  await clock.advance(hour);
  expect(attempts).toHaveLength(4);
  expect(isDone()).toBe(true);
});

it("reports failed when core answers reenroll or stop, and after 5/6 of the lifetime", async () => {
  for (const action of ["reenroll", "stop"] as const) {
    const { clock, renewals, end } = setUp(always(fail(action, "identity_revoked")), 11 * day);
    await clock.advance(minute);
    expect(renewals.status()).toMatchObject({
      status: "failed",
      lastError: "identity_revoked: no",
    });
    await end();
  }
  const { clock, renewals, plan, end } = setUp(always(fail()), 16 * day);
  await clock.advance(hour);
  expect(renewals.status().status).toBe("retrying");
  await clock.advance(plan.overdueAt - clock.now());
  expect(renewals.status().status).toBe("failed");
  await end();
});

it("R7: reports failed while the clock is 40 days ahead, limits its attempts, and recovers when the clock is corrected", async () => {
  const { clock, attempts, renewals, end } = setUp(
    always(fail("fix_clock", "clock_skew")),
    2 * day,
  );
  await clock.advance(hour);
  clock.set(clock.now() + 40 * day);
  await clock.advance(10 * hour);
  expect(renewals.status().status).toBe("failed");
  expect(attempts.length).toBeGreaterThan(10);
  expect(attempts.length).toBeLessThan(60);
  clock.set(clock.now() - 40 * day);
  const made = attempts.length;
  await clock.advance(day);
  expect(renewals.status().status).toBe("ok");
  expect(attempts.length).toBe(made);
  await end();
});

it("R7: does not lengthen a pause when the clock is set back by a day", async () => {
  const { clock, attempts, end } = setUp(always(fail("fix_clock", "clock_skew")), 13 * day);
  await clock.advance(hour);
  clock.set(clock.now() - day);
  const made = attempts.length;
  await clock.advance(3 * hour);
  expect(attempts.length).toBeGreaterThan(made + 1);
  await end();
});

it("waits without counting a failure while another process renews the same credentials", async () => {
  const locked = () => {
    throw new IdentityLockedError("another process");
  };
  const { clock, attempts, renewals, isDone } = setUp([locked, locked], 11 * day);
  await clock.advance(1000);
  expect(renewals.status()).toMatchObject({ status: "due", lastError: null });
  await clock.advance(10_000);
  expect(attempts).toEqual([0, 5000, 10_000]);
  expect(isDone()).toBe(true);
});
