import type { ScimFilter } from "../../../proto/scim/filter.ts";
import { ScimGroupInput, ScimMembers, type ScimOperation } from "../../../proto/scim/resources.ts";
import { Problem } from "../../problems.ts";
import { canonicalName } from "./canonical-names.ts";
import { parseScim, targetsOf } from "./parse-scim.ts";

/** What a group is after a change. */
export interface GroupChange {
  displayName: string;
  externalId: string | null;
  /** Ids of users. */
  members: ReadonlySet<string>;
}

/** Returns the group after the operations, in their order. Throws `scim_path_invalid`, `scim_value_invalid`, `scim_read_only`. */
export const groupChangeOf = (
  group: GroupChange,
  operations: readonly ScimOperation[],
): GroupChange => {
  let { displayName, externalId }: { displayName: unknown; externalId: unknown } = group;
  const members = new Set(group.members);
  for (const operation of operations)
    for (const { path, value } of targetsOf(operation)) {
      const name = canonicalName(path.name);
      const written = operation.op === "remove" ? null : value;
      if (name === "members")
        patchMembers(members, operation, { filter: path.filter, sub: path.sub, value });
      else if (path.filter || path.sub) throw unknownPath();
      else if (name === "displayName") displayName = written;
      else if (name === "externalId") externalId = written;
      else if (["id", "meta", "schemas"].includes(name))
        throw new Problem("scim_read_only", { detail: `${name} is read-only` });
      else if (!name.startsWith("urn:")) throw unknownPath();
    }
  const input = parseScim(ScimGroupInput, { displayName, externalId });
  return { displayName: input.displayName, externalId: input.externalId, members };
};

const unknownPath = () =>
  new Problem("scim_path_invalid", { detail: "The path names no attribute of a group" });

const patchMembers = (
  members: Set<string>,
  { op }: ScimOperation,
  { filter, sub, value }: { filter: ScimFilter | null; sub: string | null; value: unknown },
): void => {
  if (filter) {
    if (op !== "remove" || sub !== null) throw unknownPath();
    for (const member of namedBy(filter)) members.delete(member);
    return;
  }
  if (sub !== null) throw unknownPath();
  // Entra ID names the members to remove in the value. Without one, all are removed (RFC 7644, 3.5.2.2).
  const isNamed = op !== "remove" || value != null;
  const named = isNamed ? parseScim(ScimMembers, value) : [...members];
  if (op === "replace") members.clear();
  for (const member of named) {
    if (op === "remove") members.delete(member);
    else members.add(member);
  }
};

/** Returns the members that a filter names. Others would be compared with every member, for each of many operations. */
const namedBy = (filter: ScimFilter): string[] => {
  if (filter.kind === "or") return [...namedBy(filter.left), ...namedBy(filter.right)];
  if (
    filter.kind === "compare" &&
    filter.operator === "eq" &&
    filter.attribute.name === "value" &&
    !filter.attribute.sub
  )
    return [String(filter.value).toLowerCase()];
  throw new Problem("scim_path_invalid", { detail: 'The filter of members must be value eq "…"' });
};
