import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import type { Credentials } from "../identity/credentials.ts";
import { planRenewal, retryDelayMs } from "./renewals.ts";

const day = 86_400_000;
const notBefore = Date.UTC(2026, 5, 1);
const credentialsOf = (fingerprintSha256: string, lifetimeMs = 20 * day) =>
  ({
    fingerprintSha256,
    certificate: {
      validFromDate: new Date(notBefore),
      validToDate: new Date(notBefore + lifetimeMs),
    },
  }) as Pick<Credentials, "certificate" | "fingerprintSha256">;

describe("planRenewal", () => {
  it("adds 0 to 10 % of the lifetime to renew_after, from the certificate's hash alone", () => {
    const renewAfter = notBefore + 8 * day;
    const dueAt = (hash: string) =>
      planRenewal(credentialsOf(hash.padEnd(64, "0")), renewAfter).dueAt - renewAfter;
    expect(dueAt("00000000")).toBe(0);
    expect(dueAt("80000000")).toBe(day);
    expect(dueAt("ffffffff")).toBeGreaterThan(2 * day - 1000);
    expect(dueAt("ffffffff")).toBeLessThan(2 * day);
    expect(dueAt("80000000")).toBe(dueAt("80000000"));
  });

  it("plans half of the lifetime without renew_after, and 5/6 of it as overdue", () => {
    const plan = planRenewal(credentialsOf("0".repeat(64), 6 * day), undefined);
    expect(plan.dueAt).toBe(notBefore + 3 * day);
    expect(plan.overdueAt).toBe(notBefore + 5 * day);
  });

  it("R7: is due when it is overdue at the latest, whatever renew_after says", () => {
    const { dueAt, overdueAt } = planRenewal(
      credentialsOf("f".repeat(64)),
      notBefore + 900 * 365 * day,
    );
    expect(dueAt).toBe(overdueAt);
  });
});

describe("retryDelayMs", () => {
  it("R7: is at least 1 s, at most an hour and 1/10 of the remaining lifetime, whatever the clock", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 300_000, max: 30 * day }),
        fc.integer({ min: -400 * day, max: 400 * day }),
        fc.nat({ max: 100 }),
        fc.nat({ max: 10_000 }),
        fc.nat(),
        (lifetimeMs, offsetMs, attempt, retryAfterSeconds, seed) => {
          const notAfter = notBefore + lifetimeMs;
          const nowMs = notBefore + offsetMs;
          const entropy = createSeededEntropy(seed);
          const delay = retryDelayMs(
            { notBefore, notAfter },
            { attempt, nowMs, retryAfterSeconds },
            entropy,
          );
          expect(delay).toBeGreaterThanOrEqual(1000);
          const left = nowMs < notAfter ? Math.min(notAfter - nowMs, lifetimeMs) : lifetimeMs;
          expect(delay).toBeLessThanOrEqual(Math.max(1000, Math.min(left / 10, 3_600_000)));
        },
      ),
    );
  });

  it("grows with the failures, is spread out, and is at least Retry-After if the remaining lifetime allows it", () => {
    const plan = { notBefore, notAfter: notBefore + 20 * day };
    const delays = (attempt: number) =>
      Array.from({ length: 50 }, (_, seed) =>
        retryDelayMs(plan, { attempt, nowMs: notBefore }, createSeededEntropy(seed)),
      );
    expect(Math.max(...delays(0))).toBeLessThanOrEqual(5_000);
    expect(Math.max(...delays(9))).toBeGreaterThan(1_000_000);
    expect(new Set(delays(9)).size).toBeGreaterThan(45);
    const after = retryDelayMs(
      plan,
      { attempt: 0, nowMs: notBefore, retryAfterSeconds: 600 },
      createSeededEntropy(),
    );
    expect(after).toBe(600_000);
  });
});
