import * as v from "valibot";
import { anyTokens, parseTree, type TreePath } from "#proto/collector-config/tree.ts";
import { DirectoryFault, type DirectorySnapshot } from "./snapshot.ts";

const text = (charactersMax: number) =>
  v.pipe(
    v.string("must be text; quote a number"),
    v.nonEmpty("must not be empty"),
    v.maxLength(charactersMax, `must be at most ${charactersMax} characters`),
  );
const Members = v.array(text(320), "must be a list of ids or emails");

/** The directory file (docs/directory.md). */
const DirectoryFile = v.strictObject(
  {
    people: v.array(
      v.strictObject({
        /** The `sub` that the identity provider reports for the person. */
        id: text(255),
        email: text(320),
        name: v.optional(text(200)),
        suspended: v.optional(v.boolean("must be true or false"), false),
      }),
      "must be a list of people",
    ),
    /** Members by the id or email of a person. A missing group does not exist. */
    groups: v.optional(
      v.strictObject({ "svc-admin": v.optional(Members), "svc-auditor": v.optional(Members) }),
      {},
    ),
  },
  "must be a mapping with people and groups",
);

type File = v.InferOutput<typeof DirectoryFile>;
type Fault = (path: TreePath, message: string) => DirectoryFault;

/**
 * Parses a directory file into a snapshot. Throws `DirectoryFault` `file_invalid`, which names line and path of the fault and quotes
 * nothing. A member of a group who is no person is a fault, so that a typing mistake removes no scope silently.
 */
export const parseDirectoryFile = (contents: string): DirectorySnapshot => {
  const parsed = parseTree(contents, anyTokens);
  if (!parsed.ok)
    throw faultOf(parsed.errors[0] ?? { path: "", line: 1, message: "cannot be parsed" });
  const fault: Fault = (path, message) => faultOf(parsed.errorAt(path, message));
  const file = v.safeParse(DirectoryFile, parsed.tree);
  if (!file.success) {
    const [issue] = file.issues;
    const path = (issue.path ?? []).map(({ key }) => key as string | number);
    throw fault(path, messageOf(issue));
  }
  const { people, groups } = file.output;
  const named = readPeople(people, fault);
  const idsOf = (group: keyof File["groups"]): ReadonlySet<string> | null => {
    const ids = groups[group]?.map((member, index) => {
      const id = named.get(member.toLowerCase())?.id;
      if (id === undefined)
        throw fault(["groups", group, index], "is not the id or email of a person");
      return id;
    });
    return ids === undefined ? null : new Set(ids);
  };
  const users = people.map(({ id, email, name = email, suspended }) => ({
    id,
    primaryEmail: email,
    displayName: name,
    suspended,
    archived: false,
  }));
  return { users, admins: idsOf("svc-admin"), auditors: idsOf("svc-auditor") };
};

/** Returns each person by id and by email, in lower case. Throws if two people share one; the id of one may be its email. */
const readPeople = (
  people: File["people"],
  fault: Fault,
): ReadonlyMap<string, File["people"][number]> => {
  const named = new Map<string, File["people"][number]>();
  for (const [index, person] of people.entries())
    for (const key of ["id", "email"] as const) {
      const name = person[key].toLowerCase();
      if ((named.get(name) ?? person) !== person)
        throw fault(["people", index, key], "belongs to another person");
      named.set(name, person);
    }
  return named;
};

/** valibot's own messages for missing and unknown members quote names of the file. */
const messageOf = ({ type, expected, message }: v.BaseIssue<unknown>) => {
  if (type !== "strict_object" || expected === "Object") return message;
  return expected === "never" ? "is not known" : "is required";
};

const faultOf = ({
  path,
  line,
  message,
}: {
  path: string;
  line: number;
  message: string;
}): DirectoryFault =>
  new DirectoryFault(
    "file_invalid",
    `SVC_DIRECTORY_FILE: line ${line}: ${path === "" ? "the file" : path} ${message}`,
  );
