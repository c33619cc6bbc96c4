import { eq } from "drizzle-orm";
import { expect, it } from "vitest";
import { certificate } from "#drizzle/schema/enrollment.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { useProof } from "./proof-uses.ts";

const test = await useTestCore();
const { clock, db } = test;
const { enroll } = await createTestToken(test);

it.each([
  ["the first use", false],
  ["a later use", true],
])("H1: of two concurrent statements with one proof, one is admitted: %s", async (_, isLater) => {
  const host = await enroll(`raced-${isLater}`);
  const [row] = await db.select().from(certificate).where(eq(certificate.id, host.certificateId));
  const now = clock.now();
  const use = {
    fingerprintSha256: row?.fingerprintSha256.toHex() ?? "",
    sentAt: now,
    expired: false,
  };
  if (isLater) await useProof(db, "renew", { ...use, sentAt: now - 1 }, { now: () => now });

  const firstHasRun = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  const winner = db.transaction(async (tx) => {
    const admission = await useProof(tx, "renew", use, { now: () => now });
    firstHasRun.resolve();
    await mayCommit.promise;
    return admission;
  });
  await firstHasRun.promise;
  const loser = useProof(db, "renew", use, { now: () => now });
  const waiting =
    "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  await expect.poll(async () => (await db.execute(waiting)).length).toBe(1);
  mayCommit.resolve();
  expect((await winner).outcome).toBe("admitted");
  expect(await loser).toMatchObject({ outcome: "stale_request", lastSentAt: now });
});

it("counts anew when core's clock was set back", async () => {
  const host = await enroll("set-back");
  const [row] = await db.select().from(certificate).where(eq(certificate.id, host.certificateId));
  const fingerprintSha256 = row?.fingerprintSha256.toHex() ?? "";
  const now = clock.now();
  const use = async (sentAt: number, at: number) =>
    (await useProof(db, "renew", { fingerprintSha256, sentAt, expired: false }, { now: () => at }))
      .outcome;
  for (let sent = 0; sent < 6; sent++)
    expect(await use(now + sent, now + 3_600_000)).toBe("admitted");
  expect(await use(now + 6, now + 3_600_000)).toBe("rate_limited");
  expect(await use(now + 6, now)).toBe("admitted");
});
