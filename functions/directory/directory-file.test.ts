import fc from "fast-check";
import { expect, it } from "vitest";
import { parseDirectoryFile } from "./directory-file.ts";
import { DirectoryFault } from "./snapshot.ts";

const faultOf = (contents: string) => {
  try {
    parseDirectoryFile(contents);
  } catch (error) {
    if (error instanceof DirectoryFault && error.code === "file_invalid") return error.message;
    throw error;
  }
  return "no fault";
};

it("is a snapshot of its people; a member is named by id or by email in any case", () => {
  const contents = `
people:
  - { id: "110248495921238986420", email: ada@example.com, name: Ada Lovelace }
  - { id: grace, email: Grace@example.com, suspended: true }
groups:
  svc-admin: [ADA@example.com, grace]
  svc-auditor: []
`;
  expect(parseDirectoryFile(contents)).toEqual({
    users: [
      {
        id: "110248495921238986420",
        primaryEmail: "ada@example.com",
        displayName: "Ada Lovelace",
        suspended: false,
        archived: false,
      },
      {
        id: "grace",
        primaryEmail: "Grace@example.com",
        displayName: "Grace@example.com",
        suspended: true,
        archived: false,
      },
    ],
    admins: new Set(["110248495921238986420", "grace"]),
    auditors: new Set(),
  });
});

it("has no group that it does not name", () => {
  const snapshot = parseDirectoryFile("people: [{ id: a, email: a@example.com }]");
  expect([snapshot.admins, snapshot.auditors]).toEqual([null, null]);
});

it.each([
  [
    "people: [{ id: a, email: a@x.y }]\ngroups: { svc-admin: [b@x.y] }",
    "line 2: groups.svc-admin.0 is not the id or",
  ],
  [
    "people:\n- { id: a, email: a@x.y }\n- { id: A, email: b@x.y }",
    "line 3: people.1.id belongs to another person",
  ],
  [
    "people:\n- { id: a, email: a@x.y }\n- { id: b, email: A@x.y }",
    "line 3: people.1.email belongs to another",
  ],
  [
    "people: [{ id: 110248495921, email: a@x.y }]",
    "line 1: people.0.id must be text; quote a number",
  ],
  ["people: [{ id: a }]", "line 1: people.0.email is required"],
  ["people: [{ id: a, email: a@x.y, admin: true }]", "line 1: people.0.admin is not known"],
  ["people: []\ngroups: { svc-admins: [] }", "line 2: groups.svc-admins is not known"],
  ["people: [{ id: a, email: a@x.y, suspended: yes }]", "people.0.suspended must be true or false"],
  ["people: {}", "line 1: people must be a list of people"],
  ["groups: {}", "people is required"],
  ["", "the file must be a mapping"],
  ["people: [", "line 1: the file"],
])("rejects %j with the place of the fault", (contents, message) => {
  expect(faultOf(contents)).toContain(message);
});

it("may have a person whose id is the email, as some identity providers report it", () => {
  expect(faultOf("people:\n- { id: a@x.y, email: A@x.y }")).toBe("no fault");
});

it("throws nothing but a fault, whatever it contains", () => {
  fc.assert(fc.property(fc.string({ maxLength: 200 }), (contents) => void faultOf(contents)));
});
