import { expect, it } from "vitest";
import { mintBridgeToken } from "#scripts/lab/people.ts";
import { createScimCore } from "#tests/support/scim.ts";
import { insertSession } from "../store/operator-session/operator-sessions.ts";

const test = await createScimCore();
const { patch, scim, createPerson, personOf, whoami, db } = test;

const replaceActive = (id: string, value: unknown) =>
  patch(`/Users/${id}`, { op: "replace", path: "active", value });

it("is rejected from the next request on when deactivated, and accepted again as the same person", async () => {
  const { id } = await createPerson("grace");
  const { userId } = (await personOf("grace")) ?? {};
  expect((await replaceActive(id, "False")).body.active).toBe(false);
  expect((await whoami("grace")).status).toBe(401);
  expect(await personOf("grace")).toMatchObject({ userId, status: "suspended" });
  await replaceActive(id, true);
  expect(await personOf("grace")).toMatchObject({ userId, status: "active" });
  await scim("DELETE", `/Users/${id}`);
  expect((await whoami("grace")).status).toBe(401);
  await createPerson("grace");
  expect(await personOf("grace")).toMatchObject({ userId, status: "active" });
});

it("loses the sessions of programs with its deactivation", async () => {
  const { id } = await createPerson("katherine");
  const sid = "01920000-0000-7000-8000-00000000beef";
  const userId = (await personOf("katherine"))?.userId ?? "";
  const now = test.clock.now();
  await insertSession(db, {
    id: sid,
    userId,
    flow: "browser",
    clientName: "ci",
    remoteAddress: "::1",
    createdAt: new Date(now),
    expiresAt: new Date(now + 3_600_000),
    revokedAt: null,
  });
  const secret = test.config.authTokenSecret.reveal();
  const bearer = await mintBridgeToken(secret, { sub: userId, now, claims: { sid } });
  const call = async () => (await test.api("GET", "/v1/whoami", { as: { bearer } })).status;
  expect(await call()).toBe(200);
  await replaceActive(id, null);
  expect(await call()).toBe(401);
});

it("changes its subject, and the former subject is nobody", async () => {
  const { id } = await createPerson("dorothy");
  const changed = await scim("PUT", `/Users/${id}`, {
    userName: "dorothy@example.test",
    externalId: "dorothy-2",
  });
  expect(changed.body.active).toBe(true);
  expect((await personOf("dorothy"))?.status).toBe("absent");
  expect((await whoami("dorothy-2")).scopes).toEqual(["read"]);
});

it("does not sign in with an address outside the domain", async () => {
  await createPerson("mallory", { userName: "mallory@elsewhere.test" });
  expect(await personOf("mallory")).toMatchObject({
    primaryEmail: "mallory@elsewhere.test",
    status: "unverified",
    scopes: [],
  });
});
