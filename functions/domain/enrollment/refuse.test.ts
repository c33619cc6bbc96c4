import { expect, it } from "vitest";
import { auditEvent } from "#drizzle/schema/audit.ts";
import { enrollmentFailure, enrollmentRefusal } from "#drizzle/schema/enrollment.ts";
import { unobserved } from "#functions/counted-metrics.ts";
import { Problem } from "#functions/problems.ts";
import type { Database } from "#functions/store/database/database.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { createRunOrRefuse, EnrollmentRefusal } from "./refuse.ts";

const database = await useTestDatabase();

const codesOf = (outcomes: readonly PromiseSettledResult<unknown>[]) => {
  const codes: Record<string, number> = {};
  for (const outcome of outcomes) {
    const reason = outcome.status === "rejected" && outcome.reason;
    const code = reason instanceof Problem ? reason.code : "none";
    codes[code] = (codes[code] ?? 0) + 1;
  }
  return codes;
};

it("E7: refusals: 200 at once share few transactions, and exactly ten of an address precede the throttle, whatever other addresses and cores do", async () => {
  const clock = createTestClock(Date.parse("2026-05-01T10:00:00Z"));
  let transactions = 0;
  const cores = [database.connect(), database.connect()].map(({ db }, seed) => {
    const counting: Database = Object.create(db, {
      transaction: {
        value: (...args: Parameters<Database["transaction"]>) => {
          transactions++;
          return db.transaction(...args);
        },
      },
    });
    return createRunOrRefuse({
      db: counting,
      clock,
      entropy: createSeededEntropy(seed),
      observe: unobserved,
    });
  });
  const use = {
    tokenId: null,
    tokenPrefix: null,
    policyId: null,
    identity: null,
    attestation: null,
  };
  const refuse = (at: number, remoteAddress: string) =>
    cores[at % 2]?.(use, { requestId: `r-${at}`, remoteAddress }, async () => {
      throw new EnrollmentRefusal("token_invalid", { reason: "token_unknown" });
    });
  const uses = Array.from({ length: 200 }, (_, at) => at);
  expect(codesOf(await Promise.allSettled(uses.map((at) => refuse(at, "192.0.2.1"))))).toEqual({
    token_invalid: 10,
    throttled: 190,
  });
  expect(transactions).toBeLessThanOrEqual(8);
  const { db } = database.connect();
  expect(await db.$count(enrollmentFailure)).toBe(10);
  expect(await db.$count(auditEvent)).toBe(1);
  expect(await db.select().from(enrollmentRefusal)).toMatchObject([
    { addressKey: "192.0.2.1", refusals: 200 },
  ]);

  // 99 counts are left in this minute.
  const [first] = cores;
  const spread = uses.map((at) =>
    first?.(use, { requestId: `s-${at}`, remoteAddress: `198.51.100.${at}` }, async () => {
      throw new EnrollmentRefusal("policy_frozen");
    }),
  );
  expect(codesOf(await Promise.allSettled(spread))).toEqual({ policy_frozen: 200 });
  expect(await db.$count(enrollmentFailure)).toBe(10 + 99);
  expect(await db.$count(auditEvent)).toBe(1 + 99 + 1);
  const rows = await db.select().from(enrollmentRefusal);
  expect(rows.find(({ addressKey }) => addressKey === "other")).toMatchObject({ refusals: 101 });

  const late = () => Promise.allSettled(uses.map((at) => refuse(2 * at, "203.0.113.1")));
  expect(codesOf(await late())).toEqual({ token_invalid: 10, throttled: 190 });
  expect(await db.$count(enrollmentFailure)).toBe(10 + 99);
  await clock.advance(5 * 60_000);
  expect(codesOf(await late())).toEqual({ token_invalid: 10, throttled: 190 });
});
