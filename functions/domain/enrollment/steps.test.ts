import { eq } from "drizzle-orm";
import { expect, it } from "vitest";
import {
  bootstrapToken,
  enrollmentPolicy,
  enrollmentReservation,
} from "#drizzle/schema/enrollment.ts";
import type { Database } from "#functions/store/database/database.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { createTestToken, identityPrefix } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createSteps } from "./enroll.ts";
import { EnrollmentRefusal } from "./refuse.ts";

const test = await useTestCore();
const { clock } = test;
const { db, entropy, signer, cryptography } = test.core;

const createCountedSteps = () => {
  let transactions = 0;
  const counting: Database = Object.create(db, {
    transaction: {
      value: (...args: Parameters<Database["transaction"]>) => {
        transactions++;
        return db.transaction(...args);
      },
    },
  });
  return {
    ...createSteps({ db: counting, clock, entropy, ids: entropy }),
    transactions: () => transactions,
  };
};

const ask = async (policyId: string, deviceId: string) => {
  const [token] = await db
    .select()
    .from(bootstrapToken)
    .where(eq(bootstrapToken.policyId, policyId));
  const { spki } = await createTestKey();
  const host = { deviceId, hostname: null, platform: "linux/amd64", collectorVersion: "1.0.0" };
  const spkiSha256 = Uint8Array.fromHex(await cryptography.sha256Hex(spki));
  const request = {
    ...host,
    identity: identityPrefix + deviceId,
    spki,
    spkiSha256,
    csrPem: "",
    agent: "svc-collector" as const,
    remoteAddress: "::1",
  };
  return { request, policyId, tokenId: token?.id ?? "" };
};

type Use = Awaited<ReturnType<typeof ask>>;

const reasonOf = (outcome: PromiseSettledResult<unknown>) =>
  outcome.status === "fulfilled"
    ? "done"
    : outcome.reason instanceof EnrollmentRefusal
      ? outcome.reason.reason
      : "error";

it("E1: a transaction that records certificates and makes reservations keeps the policy's limit, whichever record it refuses", async () => {
  const { policyId } = await createTestToken(test, { max_enrollments: 3 });
  const steps = createCountedSteps();
  const asked = await Promise.all(["a", "b", "c", "d", "e"].map((name) => ask(policyId, name)));
  const [a, b, c, d, e] = asked as [Use, Use, Use, Use, Use];
  const issueOf = async ({ request, ...use }: Use) => {
    const reserved = await steps.reserve({ request, ...use });
    if (reserved.kind !== "reserved" || signer === null) throw new Error("not reserved");
    const { reservation } = reserved;
    const now = clock.now();
    const terms = { ttlSeconds: 3600, serial: Uint8Array.fromHex(reservation.serialNumber), now };
    const issued = await signer.sign({ ...request, ...terms });
    return { request, reservation, issued, now, origin: { requestId: "r", remoteAddress: "::1" } };
  };
  const issues = await Promise.all([a, b].map(issueOf));
  expect(steps.transactions()).toBe(1);
  // The reservation of the second was taken away while its signer ran.
  await db
    .delete(enrollmentReservation)
    .where(eq(enrollmentReservation.identity, b.request.identity));

  const outcomes = await Promise.allSettled([
    ...issues.map((issue) => steps.record(issue)),
    ...[c, d, e].map((each) => steps.reserve(each)),
  ]);
  expect(outcomes.map(reasonOf)).toEqual([
    "done",
    "enrollment_in_progress",
    "done",
    "done",
    "enrollment_limit_reached",
  ]);
  expect(steps.transactions()).toBe(2);
  const [policy] = await db
    .select()
    .from(enrollmentPolicy)
    .where(eq(enrollmentPolicy.id, policyId));
  expect(policy?.enrollmentCount).toBe(1);
  const held = await db
    .select()
    .from(enrollmentReservation)
    .orderBy(enrollmentReservation.identity);
  expect(held.map(({ identity }) => identity)).toEqual(
    [c, d].map(({ request }) => request.identity),
  );
});

it("locks expired reservations in the order of identities, so that cores under different policies cannot deadlock over them", async () => {
  const other = await createTestToken(test);
  const own = await createTestToken(test);
  const { reserve } = createCountedSteps();
  const earlier = await Promise.all(["y", "x"].map((name) => ask(other.policyId, name)));
  // Stored in the opposite order of the identities.
  for (const each of earlier) await reserve(each);
  await clock.advance(60_000);
  const { sql } = test.database.connect();
  const identityOf = (name: string) => identityPrefix + name;
  const locked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const holder = sql.begin(async (tx) => {
    await tx`select from enrollment_reservation where identity = ${identityOf("x")} for update`;
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  const later = await Promise.all(["y", "x"].map((name) => ask(own.policyId, name)));
  const reserved = Promise.all(later.map(reserve));
  const waiting = async () =>
    (
      await sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    ).length;
  await expect.poll(waiting).toBe(1);
  const free =
    await sql`select from enrollment_reservation where identity = ${identityOf("y")} for update skip locked`;
  release.resolve();
  await holder;
  expect(free).toHaveLength(1);
  expect((await reserved).map(({ kind }) => kind)).toEqual(["reserved", "reserved"]);
});
