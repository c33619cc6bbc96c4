/*
 * The requests that Okta's reference describes ("Okta and SCIM Version 2.0", developer.okta.com/docs/api/openapi/okta-scim/guides/scim-20)
 * and that its published test of a SCIM API checks, in their order.
 */
import { expect, it } from "vitest";
import { createScimCore } from "#tests/support/scim.ts";

const test = await createScimCore();
const { patch, scim, whoami } = test;

const errorSchema = ["urn:ietf:params:scim:api:messages:2.0:Error"];
const user = {
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
  userName: "ada@example.test",
  name: { givenName: "Ada", familyName: "Lovelace" },
  emails: [{ primary: true, value: "ada@example.test", type: "work" }],
  displayName: "Ada Lovelace",
  locale: "en-US",
  externalId: "00uada",
  groups: [],
  password: "1mz050nq",
  active: true,
};

it("assigns a user, updates the profile, deactivates and activates it, and pushes a group", async () => {
  expect((await scim("GET", "/Users?count=1&startIndex=1")).body).toEqual({
    schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
    totalResults: 0,
    startIndex: 1,
    itemsPerPage: 0,
    Resources: [],
  });
  const unknown = await scim("GET", "/Users/010101001010101011001010101011");
  const missing = { schemas: errorSchema, status: "404", detail: "No such user" };
  expect([unknown.status, unknown.body]).toEqual([404, missing]);
  const byName = `/Users?filter=${encodeURIComponent('userName eq "ada@example.test"')}&startIndex=1&count=100`;
  expect((await scim("GET", byName)).body.totalResults).toBe(0);

  const created = await scim("POST", "/Users", user);
  expect(created.status).toBe(201);
  const { id } = created.body;
  const { locale: _locale, groups: _groups, password: _password, ...kept } = user;
  expect(created.body).toEqual({
    ...kept,
    id,
    meta: {
      resourceType: "User",
      created: expect.stringMatching(/^\d{4}-.*Z$/),
      lastModified: expect.stringMatching(/^\d{4}-.*Z$/),
      location: `/scim/v2/Users/${id}`,
    },
  });
  expect(created.headers.get("location")).toBe(`/scim/v2/Users/${id}`);
  expect((await scim("GET", byName)).body).toMatchObject({ totalResults: 1, Resources: [{ id }] });
  const again = await scim("POST", "/Users", user);
  expect([again.status, again.body]).toEqual([
    409,
    {
      schemas: errorSchema,
      status: "409",
      scimType: "uniqueness",
      detail: "Another user has this userName",
    },
  ]);

  const read = (await scim("GET", `/Users/${id}`)).body;
  const name = { givenName: "Augusta", familyName: "King" };
  const renamed = await scim("PUT", `/Users/${id}`, { ...read, name });
  expect(renamed.body).toMatchObject({ name, active: true });
  for (const [active, status] of [
    [false, 401],
    [true, 200],
  ] as const) {
    await patch(`/Users/${id}`, { op: "replace", value: { active } });
    expect((await whoami("00uada")).status).toBe(status);
  }

  expect((await scim("GET", "/Groups?startIndex=1&count=100")).body.totalResults).toBe(0);
  const group = await scim("POST", "/Groups", {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"],
    displayName: "Admins",
    members: [],
  });
  const groupId = group.body.id;
  const changed = await patch(
    `/Groups/${groupId}`,
    { op: "remove", path: 'members[value eq "23a35c27-23d3-4c03-b4c5-6443c09e7173"]' },
    { op: "add", path: "members", value: [{ value: id, display: "ada@example.test" }] },
  );
  expect(changed.status).toBe(204);
  expect((await whoami("00uada")).scopes).toEqual(["read"]);
  await patch(`/Groups/${groupId}`, {
    op: "replace",
    value: { id: groupId, displayName: "svc-admin" },
  });
  expect((await whoami("00uada")).scopes).toEqual(["read", "audit", "admin"]);
  expect((await scim("GET", `/Groups/${groupId}`)).body).toMatchObject({
    displayName: "svc-admin",
    members: [
      { value: id, display: "ada@example.test", type: "User", $ref: `/scim/v2/Users/${id}` },
    ],
  });
  const replaced = {
    schemas: group.body.schemas,
    id: groupId,
    displayName: "svc-auditor",
    members: [{ value: id }],
  };
  expect((await scim("PUT", `/Groups/${groupId}`, replaced)).status).toBe(200);
  expect((await whoami("00uada")).scopes).toEqual(["read", "audit"]);
  expect((await scim("DELETE", `/Groups/${groupId}`)).status).toBe(204);
  expect((await whoami("00uada")).scopes).toEqual(["read"]);
});
