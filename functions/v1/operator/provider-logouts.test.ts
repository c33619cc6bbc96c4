import { afterAll, describe, expect, it } from "vitest";
import { usedLogoutToken, webSession } from "../../../drizzle/schema/operator-session.ts";
import { createTestCore } from "../../../tests/support/core.ts";

/* What a logout token does is in ui/bff/sign-in/backchannel-logout.test.ts; here is what it needs of core alone. */

const test = await createTestCore();
afterAll(() => test.close());
const { api } = test;
const remote_addr = "192.0.2.7";
const inMs = (ms: number) => new Date(test.clock.now() + ms).toISOString();
const session = (number: number) => `session-${number}`.padEnd(43, "a");

const signIn = (id: string, provider_session_id: string, lifetimeMs = 3_600_000) => {
  const body = { id, expires_at: inMs(lifetimeMs), provider_session_id };
  return api("POST", "/v1/operator/sign-ins", {
    as: "reader",
    body: { outcome: "success", remote_addr, session: body },
  });
};
const logOut = async (jti: string, provider_session_id: string) => {
  const as = { bearer: await test.bridgeToken("admin", { sub: "web" }) };
  const body = { jti, provider_session_id, expires_at: inMs(180_000), remote_addr };
  return api("POST", "/v1/operator/provider-logouts", { as, body });
};
const whoami = async (web_session: string) =>
  (await api("GET", "/v1/whoami", { as: { bearer: await test.bridgeToken("reader", { web_session }) } })).status;

describe("POST /v1/operator/provider-logouts", () => {
  it("ends a session that begins in the same moment, whichever core comes first", async () => {
    const numbers = Array.from({ length: 16 }, (_, number) => number);
    await Promise.all(
      numbers.flatMap((number) => [signIn(session(number), `at-${number}`), logOut(`token-${number}`, `at-${number}`)]),
    );
    expect(await Promise.all(numbers.map((number) => whoami(session(number))))).toEqual(numbers.map(() => 401));
  });

  it("accepts a token once, also when it comes twice at the same time", async () => {
    const answers = await Promise.all([logOut("twice", "at-none"), logOut("twice", "at-none")]);
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 409]);
    expect((await logOut("twice", "at-none")).body).toMatchObject({ code: "logout_token_replayed" });
  });

  it("forgets sessions and tokens when they have expired", async () => {
    await test.clock.advance(3_600_001);
    await signIn(session(99), "at-99", 1000);
    await logOut("last", "at-none");
    expect(await test.db.select({ id: webSession.id }).from(webSession)).toEqual([{ id: session(99) }]);
    expect(await test.db.select({ jti: usedLogoutToken.jti }).from(usedLogoutToken)).toEqual([{ jti: "last" }]);
  });

  it("rejects a session that has no form of an id, and accepts a sign-in of an older web, which names none", async () => {
    for (const id of ["", "short", "a b".repeat(9)]) expect((await signIn(id, "at-1")).status).toBe(422);
    expect((await signIn(session(1), "")).status).toBe(422);
    const body = { outcome: "success", remote_addr };
    expect((await api("POST", "/v1/operator/sign-ins", { as: "reader", body })).status).toBe(204);
  });
});
