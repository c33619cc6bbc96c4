import { eq } from "drizzle-orm";
import { expect, it } from "vitest";
import {
  bootstrapToken,
  enrollmentPolicy,
  enrollmentReservation,
} from "#drizzle/schema/enrollment.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { countEnrolledSince, countTowardsHourlyLimits } from "./identities.ts";

const test = await useTestCore();
const { clock, db } = test;
const hourMs = 3_600_000;

it("countTowardsHourlyLimits counts the past hour exactly wherever a limit can be reached, and leaves out all other policies", async () => {
  const { policyId, enroll } = await createTestToken(test, { max_enrollments_per_hour: 1000 });
  await db.update(bootstrapToken).set({ expiresAt: new Date(clock.now() + 2 * hourMs) });
  const { policyId: unlimited } = await createTestToken(test);
  const limit = (maxEnrollmentsPerHour: number) =>
    db
      .update(enrollmentPolicy)
      .set({ maxEnrollmentsPerHour })
      .where(eq(enrollmentPolicy.id, policyId));
  const count = async (more: number) => {
    const since = new Date(clock.now() - hourMs);
    const policyIds = [policyId, unlimited];
    const counted = await countTowardsHourlyLimits(
      db,
      { policyIds, upcomingEnrollments: more },
      since,
    );
    expect(counted.has(unlimited)).toBe(false);
    return {
      counted: counted.get(policyId),
      exact: await countEnrolledSince(db, policyId, since),
    };
  };
  for (const name of ["a", "b"]) await enroll(`early-${name}`);
  await clock.advance(hourMs);
  for (const name of ["a", "b", "c"]) await enroll(`late-${name}`);

  // Five have enrolled in all, three of them in the past hour.
  await limit(6);
  expect(await count(1)).toEqual({ counted: undefined, exact: 3 });
  expect(await count(2)).toEqual({ counted: 3, exact: 3 });
  await limit(2);
  expect(await count(1)).toEqual({ counted: 2, exact: 3 });
  // A reservation counts towards the limit, whichever core has made it.
  await limit(6);
  const [{ id: tokenId } = { id: "" }] = await db
    .select()
    .from(bootstrapToken)
    .where(eq(bootstrapToken.policyId, policyId));
  await db.insert(enrollmentReservation).values({
    id: crypto.randomUUID(),
    policyId,
    tokenId,
    identity: "x://reserved",
    spkiSha256: new Uint8Array(32),
    firstEnrollment: true,
    expiresAt: new Date(clock.now() + 60_000),
  });
  expect(await count(1)).toEqual({ counted: 3, exact: 3 });
});
