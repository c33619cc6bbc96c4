import { afterAll, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { scimEnvironment, scimToken } from "#tests/support/scim.ts";
import { startTestWeb } from "#tests/support/web.ts";

const web = await startTestWeb({ core: { env: scimEnvironment } });
afterAll(() => web.close());

const call = (path: string, init: RequestInit = {}) =>
  fetch(`${web.origin}${path}`, {
    ...init,
    headers: {
      Authorization: `Bearer ${scimToken}`,
      "Content-Type": "application/scim+json",
      ...init.headers,
    },
  });

it("is core's, for the identity provider's token alone", async () => {
  const body = JSON.stringify({
    userName: "ada@example.test",
    externalId: "scim-ada",
    active: true,
  });
  const created = await call("/scim/v2/Users", { method: "POST", body });
  expect(created.status).toBe(201);
  expect(created.headers.get("content-type")).toContain("application/scim+json");
  const location = created.headers.get("location") ?? "";
  const changes = {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
    Operations: [{ op: "remove", path: "active" }],
  };
  const patched = await call(location, { method: "PATCH", body: JSON.stringify(changes) });
  expect(await patched.json()).toMatchObject({ userName: "ada@example.test", active: false });
  const filter = encodeURIComponent('userName eq "ada@example.test"');
  expect(await (await call(`/scim/v2/Users?filter=${filter}`)).json()).toMatchObject({
    totalResults: 1,
  });
  const schema = "urn:ietf:params:scim:schemas:core:2.0:User";
  expect((await call(`/scim/v2/Schemas/${schema}`)).status).toBe(200);
  expect((await call(`${location}/`, { method: "DELETE" })).status).toBe(204);
});

it("ends an open session with a deactivation, and signs the person in again afterwards", async () => {
  const { subject, email } = people.auditor;
  const { header } = await web.sessionOf("auditor");
  const session = async () =>
    (await fetch(`${web.origin}/api/session`, { headers: { Cookie: header } })).status;
  expect(await session()).toBe(200);
  const body = JSON.stringify({ userName: email, externalId: subject, active: false });
  const created = await call("/scim/v2/Users", { method: "POST", body });
  expect(await session()).toBe(401);
  const active = {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
    Operations: [{ op: "replace", value: { active: true } }],
  };
  const location = created.headers.get("location") ?? "";
  await call(location, { method: "PATCH", body: JSON.stringify(active) });
  const agent = await web.signIn("auditor");
  expect(await (await agent.fetch(`${web.origin}/api/session`)).json()).toMatchObject({
    scopes: ["read"],
    user: { email },
  });
});

it("is refused without a token, with a session's cookie, with another token and for a large body", async () => {
  const { header } = await web.sessionOf("admin");
  expect((await fetch(`${web.origin}/scim/v2/Users`)).status).toBe(401);
  expect((await fetch(`${web.origin}/scim/v2/Users`, { headers: { Cookie: header } })).status).toBe(
    401,
  );
  const bearer = await web.core.bridgeToken("admin");
  expect(
    (await call("/scim/v2/Users", { headers: { Authorization: `Bearer ${bearer}` } })).status,
  ).toBe(401);
  expect(
    (await call("/scim/v2/Users", { method: "POST", body: "x".repeat(1024 * 1024 + 1) })).status,
  ).toBe(413);
});

it.each([
  "/scim",
  "/scim/v2",
  "/scim/v1/Users",
  "/scim/v2/../../metrics",
  "/scim/v2/%2e%2e/Users",
  "/scim/v2//Users",
])("does not forward %s", async (path) => {
  expect((await call(path, { method: "POST", body: "{}" })).status).toBe(404);
});
