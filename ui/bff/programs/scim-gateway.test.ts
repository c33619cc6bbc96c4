import { expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { scimEnvironment, scimToken } from "#tests/support/scim.ts";
import { useTestWeb } from "#tests/support/web.ts";

const web = await useTestWeb({ core: { env: scimEnvironment } });

const call = (path: string, init: RequestInit = {}) =>
  fetch(`${web.origin}${path}`, {
    ...init,
    headers: {
      Authorization: `Bearer ${scimToken}`,
      "Content-Type": "application/scim+json",
      ...init.headers,
    },
  });

const post = (user: object) =>
  call("/scim/v2/Users", { method: "POST", body: JSON.stringify(user) });
const patch = (location: string, ...Operations: object[]) => {
  const schemas = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"];
  return call(location, { method: "PATCH", body: JSON.stringify({ schemas, Operations }) });
};

it("is core's, for the identity provider's token alone", async () => {
  const userName = "ada@example.test";
  const created = await post({ userName, externalId: "scim-ada", active: true });
  expect(created.status).toBe(201);
  expect(created.headers.get("content-type")).toContain("application/scim+json");
  const location = created.headers.get("location") ?? "";
  const patched = await patch(location, { op: "remove", path: "active" });
  expect(await patched.json()).toMatchObject({ userName, active: false });
  const found = await call(`/scim/v2/Users?filter=userName eq "${userName}"`);
  expect(await found.json()).toMatchObject({ totalResults: 1 });
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
  const created = await post({ userName: email, externalId: subject, active: false });
  expect(await session()).toBe(401);
  const location = created.headers.get("location") ?? "";
  await patch(location, { op: "replace", value: { active: true } });
  const agent = await web.signIn("auditor");
  expect(await (await agent.fetch(`${web.origin}/api/session`)).json()).toMatchObject({
    scopes: ["read"],
    user: { email },
  });
});

it("is refused without a token, with a session's cookie, with another token and for a large body", async () => {
  const { header } = await web.sessionOf("admin");
  const bearer = await web.core.bridgeToken("admin");
  for (const headers of [{}, { Cookie: header }, { Authorization: `Bearer ${bearer}` }])
    expect((await fetch(`${web.origin}/scim/v2/Users`, { headers })).status).toBe(401);
  const large = { method: "POST", body: "x".repeat(1024 * 1024 + 1) };
  expect((await call("/scim/v2/Users", large)).status).toBe(413);
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
