import { expect, it } from "vitest";
import { createScimCore } from "#tests/support/scim.ts";

const test = await createScimCore();
const { scim, createPerson, whoami, personOf } = test;
const other = test.onSameDatabase();

const patch = (...Operations: object[]) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
  Operations,
});
const cores = [scim, other];
const on = (index: number) => cores[index % cores.length] ?? scim;

it("two cores create one user of a name, and one person", async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      on(at)("POST", "/Users", { userName: "ada@example.test", externalId: "ada" }),
    ),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(7).fill(409)]);
  expect((await personOf("ada"))?.status).toBe("active");
});

it("two cores that add members to a group at once lose none", async () => {
  const created = await Promise.all(
    Array.from({ length: 12 }, (_, at) => createPerson(`person${at}`)),
  );
  const { body } = await scim("POST", "/Groups", { displayName: "svc-auditor" });
  const add = ({ id }: { id: string }, at: number) =>
    on(at)(
      "PATCH",
      `/Groups/${body.id}`,
      patch({ op: "add", path: "members", value: [{ value: id }] }),
    );
  const answers = await Promise.all(created.map(add));
  expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(204));
  for (const at of created.keys())
    expect((await whoami(`person${at}`)).scopes).toEqual(["read", "audit"]);
});

it("a deactivation at one core is in force at the other's next request", async () => {
  const { id } = await createPerson("grace");
  expect((await whoami("grace")).status).toBe(200);
  await other("PATCH", `/Users/${id}`, patch({ op: "replace", path: "active", value: false }));
  expect((await whoami("grace")).status).toBe(401);
});
