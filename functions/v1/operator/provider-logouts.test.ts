import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { usedLogoutToken, webSession } from "#drizzle/schema/operator.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  insertUsedLogoutToken,
  insertWebSession,
  lockProviderSession,
} from "#functions/store/operator-session/operator-sessions.ts";
import { useTestCore } from "#tests/support/core.ts";

/* What a logout token does is in ui/bff/sign-in/backchannel-logout.test.ts; here is what it needs of core alone. */

const test = await useTestCore();
const { reader, api } = test;
const remote_addr = "192.0.2.7";
const inMs = (ms: number) => test.clock.iso(ms);
const session = (number: number) => `session-${number}`.padEnd(43, "a");

const signIn = (id: string, provider_session_id: string, lifetimeMs = 3_600_000) => {
  const body = { id, expires_at: inMs(lifetimeMs), provider_session_id };
  return reader.post("/v1/operator/sign-ins", { outcome: "success", remote_addr, session: body });
};
const logOut = async (
  jti: string,
  provider_session_id: string | null,
  subject = "nobody",
  lifetimeMs = 180_000,
) => {
  const body = { jti, subject, provider_session_id, expires_at: inMs(lifetimeMs), remote_addr };
  return api("POST", "/v1/operator/provider-logouts", { as: await test.asWeb(), body });
};
const whoami = async (web_session: string) => {
  const as = { bearer: await test.bridgeToken("reader", { web_session }) };
  return (await api("GET", "/v1/whoami", { as })).status;
};

/** Returns how many transactions wait for a lock of `lockProviderSession` and alike. */
const waiting = async () =>
  (
    await test.db.execute(sql`select from pg_locks join pg_database on oid = database
      where datname = current_database() and locktype = 'advisory' and not granted`)
  ).length;

/** Starts `call` while the transaction of `begin` is open, which commits once `call` waits for it or has returned. */
const heldBack = async <Result>(
  begin: (tx: Executor) => Promise<void>,
  call: () => Promise<Result>,
) => {
  let called: Promise<Result> | undefined;
  await test.db.transaction(async (tx) => {
    await begin(tx);
    const before = await waiting();
    let isOver = false;
    called = call().finally(() => {
      isOver = true;
    });
    while (!isOver && (await waiting()) === before);
  });
  return called ?? call();
};

it("waits for a sign-in of that session that another core has not committed, and ends it", async () => {
  const id = session(1);
  const providerSessionId = "at-1";
  const expiresAt = new Date(test.clock.now() + 3_600_000);
  const out = await heldBack(
    async (tx) => {
      await lockProviderSession(tx, providerSessionId);
      const row = { id, userId: test.people.reader.userId, providerSessionId, expiresAt };
      await insertWebSession(tx, row, new Date(0));
    },
    () => logOut("token-1", providerSessionId),
  );
  expect([out.status, await whoami(id)]).toEqual([204, 401]);
});

it("without a session waits for a sign-in of its person that is not committed, and ends it", async () => {
  let signedIn: ReturnType<typeof signIn> | undefined;
  const out = await heldBack(
    async (tx) => {
      await lockProviderSession(tx, "at-5");
      signedIn = signIn(session(5), "at-5");
      await expect.poll(waiting).toBe(1);
    },
    () => logOut("token-5", null, test.people.reader.subject),
  );
  expect([out.status, (await signedIn)?.status, await whoami(session(5))]).toEqual([204, 204, 401]);
});

it("is waited for by a sign-in of that session, which begins as ended", async () => {
  const id = session(2);
  const providerSessionId = "at-2";
  const expiresAt = new Date(test.clock.now() + 180_000);
  const signedIn = await heldBack(
    async (tx) => {
      await lockProviderSession(tx, providerSessionId);
      await insertUsedLogoutToken(
        tx,
        { jti: "token-2", providerSessionId, expiresAt },
        new Date(0),
      );
    },
    () => signIn(id, providerSessionId),
  );
  expect([signedIn.status, await whoami(id)]).toEqual([204, 401]);
});

it("ends sessions once for a token, also when it comes twice at the same time, and refuses another one with its jti", async () => {
  const signOuts = () => test.events("action=operator.sign_out&outcome=success");
  await signIn(session(3), "at-3");
  const before = await signOuts();
  const answers = await Promise.all([1, 2, 3].map(() => logOut("twice", "at-3")));
  expect(answers.map(({ status }) => status)).toEqual([204, 204, 204]);
  expect(await signOuts()).toHaveLength(before.length + 1);
  for (const [sid, subject] of [["at-other"], ["at-3", "100000000000000000098"]] as const)
    expect((await logOut("twice", sid, subject)).body.code).toBe("logout_token_replayed");
});

it("knows a token again that web reports after it has expired", async () => {
  const late = () => logOut("late", null, test.people.reader.subject, -1);
  await late();
  await signIn(session(4), "at-4");
  await test.clock.advance(60_001);
  expect([(await late()).status, await whoami(session(4))]).toEqual([204, 200]);
});

it("forgets sessions and tokens a week after they have expired", {
  tags: "workerd",
}, async () => {
  await test.clock.advance(8 * 24 * 3_600_000);
  await signIn(session(99), "at-99", 1000);
  await logOut("last", "at-none");
  expect(await test.db.select({ id: webSession.id }).from(webSession)).toEqual([
    { id: session(99) },
  ]);
  expect(await test.db.select({ jti: usedLogoutToken.jti }).from(usedLogoutToken)).toEqual([
    { jti: "last" },
  ]);
});

it("rejects a session that has no form of an id, and accepts a sign-in of an older web, which names none", async () => {
  for (const id of ["", "short", "a b".repeat(9)])
    expect((await signIn(id, "at-1")).status).toBe(422);
  expect((await signIn(session(1), "")).status).toBe(422);
  const body = { outcome: "success", remote_addr };
  expect((await reader.post("/v1/operator/sign-ins", body)).status).toBe(204);
});
