import { eq } from "drizzle-orm";
import { expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { mintBridgeToken } from "#scripts/lab/people.ts";
import { createScimCore } from "#tests/support/scim.ts";
import { insertSession } from "../store/operator-session/operator-sessions.ts";

const test = await createScimCore();
const { patch, scim, createPerson, whoami, db } = test;

const replaceActive = (id: string, value: unknown) =>
  patch(`/Users/${id}`, { op: "replace", path: "active", value });

it("is rejected from the next request on when deactivated, and accepted again as the same person", async () => {
  const grace = await createPerson("grace");
  const before = await test.personOf("grace");
  expect((await replaceActive(grace.id, "False")).body.active).toBe(false);
  expect((await whoami("grace")).status).toBe(401);
  expect((await test.personOf("grace"))?.status).toBe("suspended");
  await replaceActive(grace.id, true);
  expect((await whoami("grace")).status).toBe(200);
  expect((await test.personOf("grace"))?.userId).toBe(before?.userId);
  expect((await scim("DELETE", `/Users/${grace.id}`)).status).toBe(204);
  expect((await whoami("grace")).status).toBe(401);
  expect((await test.personOf("grace"))?.status).toBe("absent");
  expect((await scim("GET", `/Users/${grace.id}`)).status).toBe(404);
  await createPerson("grace");
  expect((await test.personOf("grace"))?.userId).toBe(before?.userId);
});

it("loses the sessions of programs with its deactivation", async () => {
  const { id } = await createPerson("katherine");
  const sid = "01920000-0000-7000-8000-00000000beef";
  const userId = (await test.personOf("katherine"))?.userId ?? "";
  const now = test.clock.now();
  const times = {
    createdAt: new Date(now),
    expiresAt: new Date(now + 3_600_000),
    revokedAt: null,
  };
  await insertSession(db, {
    id: sid,
    userId,
    flow: "browser",
    clientName: "ci",
    remoteAddress: "::1",
    ...times,
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
  expect((await test.personOf("dorothy"))?.status).toBe("absent");
  expect((await whoami("dorothy-2")).scopes).toEqual(["read"]);
});

it("does not sign in with an address outside the domain", async () => {
  const response = await scim("POST", "/Users", {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    userName: "mallory@elsewhere.test",
    externalId: "mallory",
  });
  expect(response.status).toBe(201);
  expect((await test.personOf("mallory"))?.status).toBe("unverified");
  const rows = await db
    .select()
    .from(person)
    .where(eq(person.primaryEmail, "mallory@elsewhere.test"));
  expect(rows.map(({ scopes }) => scopes)).toEqual([[]]);
});
