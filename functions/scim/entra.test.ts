/*
 * The requests that Microsoft's tutorial describes ("Develop and plan provisioning for a SCIM endpoint in Microsoft Entra ID",
 * learn.microsoft.com/entra/identity/app-provisioning/use-scim-to-provision-users-and-groups), in their order, and the forms that Entra ID
 * sends without the flag `aadOptscim062020`.
 */
import { expect, it } from "vitest";
import { createScimCore } from "#tests/support/scim.ts";

const test = await createScimCore();
const { patch, scim, whoami, personOf } = test;

const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const filtered = (path: string, filter: string) => `${path}?filter=${encodeURIComponent(filter)}`;

it("takes what some send: a slash behind the path, a PATCH without schemas, and `active` as a list", {
  tags: "workerd",
}, async () => {
  const user = { userName: "listed@example.test", externalId: "listed", active: [true] };
  const created = await scim("POST", "/Users/", user);
  expect(created).toMatchObject({ status: 201, body: { active: true } });
  const path = `/Users/${created.body.id}/`;
  for (const [value, active] of [
    [[{ $ref: null, value: "False" }], false],
    [["True"], true],
  ] as const) {
    const Operations = [{ op: "Replace", path: "active", value }];
    expect((await scim("PATCH", path, { Operations })).body).toMatchObject({ active });
  }
  for (const value of [[], [true, false], [{}]])
    expect((await patch(path, { op: "Replace", path: "active", value })).status).toBe(400);
});

it("tests the connection, and creates, matches, updates, disables and deletes a user", async () => {
  const test404 = filtered("/Users", 'userName eq "3dbd1dd1-8a13-4a3d-9c3a-0d9a2a3f5b4c"');
  expect(await scim("GET", test404)).toMatchObject({
    status: 200,
    body: { totalResults: 0, Resources: [] },
  });
  const created = await scim("POST", "/Users", {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User", enterprise],
    externalId: "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
    userName: "Grace@example.test",
    active: true,
    emails: [{ primary: true, type: "work", value: "Grace.Hopper@example.test" }],
    meta: { resourceType: "User" },
    name: { formatted: "Grace Hopper", familyName: "Hopper", givenName: "Grace" },
    roles: [],
    [enterprise]: { employeeNumber: "7" },
  });
  expect(created.status).toBe(201);
  const { id, externalId } = created.body;
  for (const filter of [
    'userName eq "grace@EXAMPLE.test"',
    `externalId eq "${externalId}"`,
    'emails[type eq "work"].value eq "grace.hopper@example.test"',
    'emails[type eq "work" and value co "hopper"]',
    `id eq "${id}" and active eq true`,
  ])
    expect((await scim("GET", filtered("/Users", filter))).body.totalResults, filter).toBe(1);

  const updated = await patch(
    `/Users/${id}`,
    { op: "Replace", path: 'emails[type eq "work"].value', value: "hopper@example.test" },
    { op: "Replace", path: "name.familyName", value: "Murray Hopper" },
    { op: "Add", path: `${enterprise}:department`, value: "Navy" },
    { op: "Add", path: 'phoneNumbers[type eq "work"].value', value: "555" },
    { op: "Add", path: "title", value: "Admiral" },
  );
  expect(updated).toMatchObject({
    status: 200,
    body: {
      emails: [{ value: "hopper@example.test", type: "work", primary: true }],
      name: { formatted: "Grace Hopper", givenName: "Grace", familyName: "Murray Hopper" },
    },
  });
  expect((await personOf(externalId))?.primaryEmail).toBe("hopper@example.test");
  await patch(`/Users/${id}`, { op: "Replace", path: "userName", value: "hopper@example.test" });
  expect((await scim("GET", `/Users/${id}`)).body.userName).toBe("hopper@example.test");

  for (const [operation, status] of [
    [{ op: "Replace", path: "active", value: "False" }, 401],
    [{ op: "Replace", path: "active", value: "True" }, 200],
    [{ op: "replace", value: { active: false } }, 401],
    [{ op: "Add", value: { Active: true, "name.givenName": "Grace M." } }, 200],
  ] as const) {
    await patch(`/Users/${id}`, operation);
    expect((await whoami(externalId)).status).toBe(status);
  }
  expect((await scim("GET", `/Users/${id}`)).body.name.givenName).toBe("Grace M.");
  expect((await scim("DELETE", `/Users/${id}`)).status).toBe(204);
  expect((await scim("GET", `/Users/${id}`)).status).toBe(404);
  expect((await personOf(externalId))?.status).toBe("absent");
});

it("adds the address of a user who has none by a path with a filter", async () => {
  const { id } = await test.createPerson("joan");
  const added = await patch(`/Users/${id}`, {
    op: "Add",
    path: 'emails[type eq "work"].value',
    value: "joan@example.test",
  });
  expect(added.body.emails).toEqual([{ value: "joan@example.test", type: "work", primary: false }]);
});

it("creates a group, adds and removes members by name and by value, and renames it", {
  tags: "workerd",
}, async () => {
  const ada = await test.createPerson("ada");
  const alan = await test.createPerson("alan");
  const created = await scim("POST", "/Groups", {
    schemas: [
      "urn:ietf:params:scim:schemas:core:2.0:Group",
      "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group",
    ],
    externalId: "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
    displayName: "svc-auditor",
    meta: { resourceType: "Group" },
  });
  const { id } = created.body;
  const members = async () => {
    const { body } = await scim("GET", `/Groups/${id}`);
    return (body.members ?? []).map(({ value }: { value: string }) => value);
  };
  const change = (op: string, path: string, value?: unknown) =>
    patch(`/Groups/${id}`, { op, path, value });
  await change("Add", "members", [{ $ref: null, value: ada.id }]);
  await change("Add", "members", [{ $ref: null, value: alan.id }, { value: ada.id }]);
  expect(await members()).toEqual([ada.id, alan.id]);
  expect((await whoami("alan")).scopes).toContain("audit");
  expect(
    (await scim("GET", `/Groups/${id}?excludedAttributes=members`)).body.members,
  ).toBeUndefined();
  const named = `${filtered("/Groups", 'displayName eq "SVC-auditor"')}&excludedAttributes=members`;
  const [listed] = (await scim("GET", named)).body.Resources;
  expect(listed).toMatchObject({ id, displayName: "svc-auditor" });
  expect(listed).not.toHaveProperty("members");
  const withMember = (user: string) =>
    filtered("/Groups", `id eq "${id}" and members eq "${user}"`);
  expect((await scim("GET", withMember(alan.id))).body.totalResults).toBe(1);
  await change("Remove", "members", [{ $ref: null, value: alan.id }]);
  expect(await members()).toEqual([ada.id]);
  expect((await whoami("alan")).scopes).toEqual(["read"]);
  expect((await scim("GET", withMember(alan.id))).body.totalResults).toBe(0);
  await change("Remove", "members");
  expect(await members()).toEqual([]);
  await change("Replace", "members", [{ value: alan.id }]);
  expect((await whoami("alan")).scopes).toContain("audit");
  await change("Replace", "displayName", "formerly auditors");
  expect((await whoami("alan")).scopes).toEqual(["read"]);
  expect((await scim("DELETE", `/Groups/${id}`)).status).toBe(204);
});
