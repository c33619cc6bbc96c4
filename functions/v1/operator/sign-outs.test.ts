import { expect, it } from "vitest";
import { endedWebSession } from "#drizzle/schema/operator.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { api, people } = test;
const session = (letter: string) => letter.repeat(43);
const hourMs = 3_600_000;

const signOut = async (sessionId: string, lifetimeMs = hourMs) => {
  const body = {
    session_id: sessionId,
    user_id: people.reader.userId,
    expires_at: test.clock.iso(lifetimeMs),
    remote_addr: "192.0.2.7",
  };
  return api("POST", "/v1/operator/sign-outs", { as: await test.asWeb(), body });
};
const whoami = async (web_session?: unknown) => {
  const as = { bearer: await test.bridgeToken("reader", { web_session }) };
  return (await api("GET", "/v1/whoami", { as })).status;
};

it("ends that session of the person, and no other", async () => {
  expect(await whoami(session("a"))).toBe(200);
  expect((await signOut(session("a"))).status).toBe(204);
  expect(await whoami(session("a"))).toBe(401);
  expect(await whoami(session("b"))).toBe(200);
  expect(await whoami()).toBe(200);
});

it("is idempotent, and audited once", async () => {
  for (const _ of [1, 2]) expect((await signOut(session("c"))).status).toBe(204);
  const events = await test.events("action=operator.sign_out");
  expect(events).toHaveLength(2);
  expect(events[0]).toMatchObject({
    actor: { id: "web" },
    target: { type: "person", id: people.reader.userId },
    remote_addr: "192.0.2.7",
  });
});

it("K1: is in force after the database's clock was two days ahead", async () => {
  await signOut(session("h"));
  const before = test.clock.now();
  test.clock.set(before + 48 * hourMs);
  await signOut(session("i"));
  test.clock.set(before);
  expect(await whoami(session("h"))).toBe(401);
});

it("forgets a session a week after it has expired", { tags: "workerd" }, async () => {
  await signOut(session("d"));
  await test.clock.advance(10 * 24 * hourMs);
  await signOut(session("e"));
  expect(await test.db.select({ id: endedWebSession.id }).from(endedWebSession)).toEqual([
    { id: session("e") },
  ]);
});

it("rejects a session of seven days until its last second", async () => {
  const days = 24 * hourMs;
  await signOut(session("f"), 7 * days);
  await test.clock.advance(7 * days - 1000);
  await signOut(session("g"));
  expect(await whoami(session("f"))).toBe(401);
});

it("rejects a token whose session has no form of an id", async () => {
  for (const id of ["", "short", "a".repeat(65), "a b".repeat(9), 7, {}])
    expect(await whoami(id), String(id)).toBe(401);
});
