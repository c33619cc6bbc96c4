import { eq } from "drizzle-orm";
import { expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { watch } from "#drizzle/schema/watch.ts";
import { endClaims, takeLine } from "#functions/domain/now/claims.ts";
import { createNowFinder } from "#functions/domain/now/report-now.ts";
import { evaluateWatches } from "#functions/domain/watch/run-watches.ts";
import { minuteMs } from "#kit/clock.ts";
import type { NowReport } from "#proto/now/report.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { admin, auditor, clock, core, db } = test;
await test.seedFleet(40);

/** Returns the number of rows that the path of a line opens. */
const rowsOf = async (path: string) => {
  const { search } = new URL(path, "https://web.test");
  return (await test.health(`limit=1000&${search.slice(1)}`)).items.length;
};
const readNow = () => auditor.read<NowReport>("/v1/now");
const { body: stale } = await admin.post("/v1/collector/watches", {
  name: "stale hosts",
  filter: "state:stale",
  more_than: 1,
  for_seconds: 0,
});
const key = `watch:${stale.id}`;
const scopes: Scope[] = ["read", "audit", "admin"];
/** A person who takes a line, and loses access. */
const leaver = {
  userId: "01920000-0000-7000-8000-00000000001e",
  primaryEmail: "linus@example.test",
  status: "active" as const,
  scopes,
  syncedAt: new Date(clock.now()),
};
const evaluate = async (more_than = 1) => {
  await clock.advance(10_000);
  await db
    .update(watch)
    .set({ moreThan: more_than })
    .where(eq(watch.id, String(stale.id)));
  await evaluateWatches(core);
};
const take = (note?: string) => admin.post("/v1/now/claims", { key, note });
const release = (id: unknown) => admin.delete(`/v1/now/claims/${id}`);
const takenNow = async () => (await readNow()).lines.find((line) => line.key === key)?.taken;
/** Runs the job that ends claims, minutes later. */
const endLater = async (minutes: number) => {
  await clock.advance(minutes * minuteMs);
  return endClaims(core, createNowFinder(core));
};

it("has a line for each watch that fires, whose count is the rows that its path opens", {
  tags: "workerd",
}, async () => {
  expect((await readNow()).lines).toEqual([]);
  await evaluate();
  const { lines } = await readNow();
  const count = await rowsOf("/fleet?state=stale");
  expect(lines).toMatchObject([
    {
      key,
      severity: "critical",
      count,
      since: clock.iso(),
      sentence: `${count} hosts match “stale hosts”, which allows 1.`,
      path: "/fleet?state=stale",
      taken: null,
    },
  ]);
});

it("lets one person take a line, with a note, audited, until it is released", {
  tags: "workerd",
}, async () => {
  const { status, body } = await take("the network team is on it");
  const taken = { id: body.id, by: "ada@example.test", at: clock.iso(), has_access: true };
  expect([status, body]).toEqual([201, { ...taken, note: "the network team is on it" }]);
  expect(await takenNow()).toEqual(body);
  expect((await take()).body).toMatchObject({ code: "conflict" });
  expect(await test.lastEvent("action=line.take")).toMatchObject({
    target: { type: "line", id: key },
    reason: "the network team is on it",
  });
  expect((await release(body.id)).status).toBe(204);
  expect((await release(body.id)).status).toBe(404);
  expect(await takenNow()).toBeNull();
  const unknown = await admin.post("/v1/now/claims", { key: "watch:none" });
  expect(unknown.status).toBe(404);
  expect((await auditor.post("/v1/now/claims", { key })).status).toBe(403);
});

it("ends a claim with its cause, and not for a moment without it", async () => {
  await take();
  await evaluate(1000);
  expect([await endLater(1), await endLater(3)]).toEqual([0, 0]);
  await db
    .update(watch)
    .set({ isFiring: true })
    .where(eq(watch.id, String(stale.id)));
  expect([await endLater(1), await endLater(9)]).toEqual([0, 0]);
  await evaluate(1000);
  expect(await endLater(1)).toBe(0);
  await clock.advance(9 * minuteMs);
  const found = await createNowFinder(core)();
  expect(await endClaims(core, async () => ({ ...found, unread: new Set(["watch"]) }))).toBe(0);
  expect([await endLater(1), await endLater(5)]).toEqual([0, 1]);
  expect(await test.lastEvent("action=line.release")).toMatchObject({
    actor: { type: "system" },
    reason_code: "cause_ended",
    details: { taken_by: "ada@example.test" },
  });
});

it("leaves the next episode untaken at once", async () => {
  await evaluate(1);
  await take("the first time");
  await evaluate(1000);
  await evaluate(1);
  expect(await takenNow()).toBeNull();
  expect((await take("the second time")).status).toBe(201);
  // That of the first time has ended.
  expect(await test.lastEvent("action=line.release")).toMatchObject({
    occurred_at: clock.iso(-1),
    reason_code: "cause_ended",
  });
  expect(await takenNow()).toMatchObject({ note: "the second time" });
});

it("says which watches are left out while they are silenced", async () => {
  await admin.post(`/v1/collector/watches/${stale.id}/silence`, { seconds: 3600 });
  const until = `${clock.iso(3_600_000).slice(0, 16).replace("T", " ")} UTC`;
  expect(await readNow()).toMatchObject({
    lines: [],
    silenced: `1 watch is left out while silenced: “stale hosts” until ${until}.`,
  });
  await clock.advance(3_600_000);
  expect((await readNow()).silenced).toBeUndefined();
});

it("takes a line that only another core has found yet", async () => {
  await evaluate(1000);
  const find = createNowFinder({ ...core, viewsShared: { ms: 1000, clock } });
  expect((await find()).lines).toEqual([]);
  await evaluate(1);
  expect((await find()).lines).toEqual([]);
  const caller = { userId: leaver.userId, email: leaver.primaryEmail } as never;
  await db.insert(person).values(leaver);
  const by = { caller, origin: { requestId: "r", remoteAddress: "::1" } };
  await takeLine(core, by, { key, note: null }, find);
  expect(await takenNow()).toMatchObject({ by: leaver.primaryEmail, has_access: true });
});

it("shows that the person of a claim has no access any more, and lets the next one take the line", async () => {
  for (const change of [{ scopes: ["read" as const] }, { scopes, status: "suspended" as const }]) {
    await db.update(person).set(change).where(eq(person.userId, leaver.userId));
    expect(await takenNow()).toMatchObject({ by: leaver.primaryEmail, has_access: false });
  }
  expect((await take("I go on")).status).toBe(201);
  expect(await test.lastEvent("action=line.release")).toMatchObject({
    reason_code: "access_ended",
    details: { taken_by: leaver.primaryEmail },
  });
  expect(await takenNow()).toMatchObject({ by: "ada@example.test", note: "I go on" });
});

it("reports what it found last while it looks again, with the time of that", async () => {
  const find = createNowFinder({ ...core, viewsShared: { ms: 1000, clock } });
  const first = await find();
  await clock.advance(10_000);
  expect((await find()).at).toBe(first.at);
  await expect.poll(async () => (await find()).at).toBe(clock.now());
  await clock.advance(minuteMs);
  expect((await find()).at).toBe(clock.now());
});
