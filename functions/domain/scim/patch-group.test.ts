import { expect, it } from "vitest";
import { groupChangeOf } from "./groups.ts";
import { parseOperations } from "./parse-scim.ts";

const group = { displayName: "svc-admin", externalId: null, members: new Set(["a", "b", "c"]) };
const remaining = (path: string) => {
  const schemas = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"];
  const operations = parseOperations({ schemas, Operations: [{ op: "remove", path }] });
  return [...groupChangeOf(group, operations).members];
};

it("removes the members that a filter names", () => {
  expect(remaining('members[value eq "B"]')).toEqual(["a", "c"]);
  expect(remaining('members[value eq "a" or value eq "b" or value eq "x"]')).toEqual(["c"]);
});

it.each([
  'members[value ne "a"]',
  'members[value eq "a" and value eq "b"]',
  'members[not (value eq "a")]',
  'members[display eq "a"]',
  'members[members[value eq "a"]]',
])("rejects %s, which would compare every member of a large group for each operation", (path) => {
  expect(() => remaining(path)).toThrow(expect.objectContaining({ code: "scim_path_invalid" }));
});
