import fc from "fast-check";
import { expect, it } from "vitest";
import { Problem } from "#functions/problems.ts";
import { parseOperations } from "./parse-scim.ts";
import { patchUser } from "./users.ts";

const ada = {
  userName: "ada@example.test",
  externalId: "ada",
  active: true,
  displayName: "Ada",
  name: { formatted: null, givenName: "Ada", familyName: null },
  emails: [
    { value: "ada@example.test", type: "work", primary: true },
    { value: "ada@home.test", type: "home", primary: false },
  ],
};
const patched = (...operations: object[]) =>
  patchUser(
    ada,
    parseOperations({
      schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
      Operations: operations,
    }),
  );

it("makes a new primary address the only one", () => {
  const value = [{ value: "a@example.test", type: "other", primary: true }];
  expect(patched({ op: "add", path: "emails", value }).emails).toEqual([
    { ...ada.emails[0], primary: false },
    ada.emails[1],
    value[0],
  ]);
  expect(
    patched({ op: "replace", path: 'emails[type eq "home"].primary', value: "True" }).emails,
  ).toEqual([
    { ...ada.emails[0], primary: false },
    { ...ada.emails[1], primary: "True" },
  ]);
});

it("has no more addresses after any operation than a user may have, so that many operations stay cheap", () => {
  const add = (from: number) => ({
    op: "add",
    path: "emails",
    value: Array.from({ length: 15 }, (_, at) => ({ value: `${from + at}@example.test` })),
  });
  const clear = { op: "remove", path: "emails" };
  expect(patched(clear, add(0)).emails).toHaveLength(15);
  for (const operations of [
    [clear, add(0), add(100), clear],
    [add(0), { ...add(0), value: Array(21).fill("x") }],
  ])
    expect(() => patched(...operations)).toThrow(
      expect.objectContaining({ code: "scim_value_invalid" }),
    );
});

it("removes by filter, sub-attribute and attribute", () => {
  expect(patched({ op: "remove", path: 'emails[type eq "home"]' }).emails).toEqual([ada.emails[0]]);
  expect(patched({ op: "remove", path: 'emails[type eq "home"].value' }).emails).toEqual([
    ada.emails[0],
  ]);
  expect(patched({ op: "remove", path: "emails" }).emails).toEqual([]);
  expect(patched({ op: "remove", path: "name.givenName" }).name).toMatchObject({
    givenName: null,
  });
  expect(patched({ op: "remove", path: "active" }).active).toBe(false);
  expect(patched({ op: "replace", path: "active", value: null }).active).toBe(false);
});

it("takes names in any case, with dots in an object, and the core schema's URN", () => {
  const value = {
    DISPLAYNAME: "Countess",
    "name.familyName": "King",
    "urn:ietf:params:scim:schemas:core:2.0:User:userName": "king@example.test",
    "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": { department: "x" },
    id: "ignored",
  };
  expect(patched({ op: "REPLACE", value })).toEqual({
    ...ada,
    displayName: "Countess",
    userName: "king@example.test",
    name: { ...ada.name, familyName: "King" },
  });
});

it("does not add an address twice", () => {
  const value = { value: "ADA@example.test", type: "work" };
  expect(patched({ op: "add", path: "emails", value }).emails).toHaveLength(2);
});

it("throws nothing but problems, whatever the operations", () => {
  const path = fc.constantFrom(
    "emails",
    'emails[type eq "work"]',
    "emails[x pr].value",
    "name",
    "name.x",
    "active",
    "x",
  );
  const operation = fc.record({
    op: fc.constantFrom("add", "replace", "remove"),
    path: fc.option(path),
    value: fc.jsonValue({ maxDepth: 3 }),
  });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 4 }), (operations) => {
      try {
        patchUser(ada, operations);
      } catch (error) {
        expect(error).toBeInstanceOf(Problem);
      }
    }),
    { numRuns: 1000 },
  );
});
