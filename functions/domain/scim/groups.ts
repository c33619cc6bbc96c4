import { Problem, requireFound } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { ScimList, ScimPage } from "#functions/store/scim/filter.ts";
import {
  deleteScimGroup,
  deleteScimMembers,
  findScimGroup,
  findScimMembers,
  insertScimGroup,
  insertScimMembers,
  isGroupNameTaken,
  listScimGroups,
  type ScimGroupRow,
  type ScimMemberRow,
  updateScimGroup,
} from "#functions/store/scim/groups.ts";
import { deleteHeldMembers, findHeldMembers } from "#functions/store/scim/held-access.ts";
import { findScimUserIds } from "#functions/store/scim/users.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { lowerAscii } from "#kit/lower-ascii.ts";
import type { ScimFilter } from "#proto/scim/filter.ts";
import { ScimGroupInput, ScimMembers, type ScimOperation } from "#proto/scim/resources.ts";
import { isUuid } from "#proto/values.ts";
import type { Origin } from "../audit/audit-log.ts";
import {
  canonicalName,
  parseScim,
  refuseReadOnly,
  targetsOf,
  unknownPath,
  withFilterProblem,
} from "./parse-scim.ts";
import { type Pushed, push, roleGroups, type ScimCore } from "./push.ts";

/** Creates a group. Throws 400 `scim_value_invalid`, 409 `scim_value_taken`. */
export const createGroup = (
  core: ScimCore,
  body: unknown,
  origin: Origin,
): Promise<ScimGroupRow> => {
  const { displayName, externalId, members } = parseScim(ScimGroupInput, body);
  return push(core, origin, async (tx) => {
    const now = new Date(core.clock.now());
    const row = rowOf(
      { displayName, externalId },
      { id: uuidv7(core), createdAt: now, updatedAt: now },
    );
    await requireFreeName(tx, row);
    await insertScimGroup(tx, row);
    await addMembers(tx, row.id, members);
    return { result: row, userIds: isRole(row) ? members : [] };
  });
};

/** The properties of a group after a change. */
interface GroupChange {
  displayName: string;
  externalId: string | null;
  /** Ids of users. */
  members: ReadonlySet<string>;
}

/** Replaces a group with its members. Throws as `createGroup`, and 404 `not_found`. */
export const replaceGroup = (
  core: ScimCore,
  id: string,
  body: unknown,
  origin: Origin,
): Promise<ScimGroupRow> => {
  const { displayName, externalId, members } = parseScim(ScimGroupInput, body);
  return push(core, origin, async (tx) => {
    const before = await findGroup(tx, id);
    const change: GroupChange = { displayName, externalId, members: new Set(members) };
    await deleteHeldMembers(tx, id, await findHeldMembers(tx, id));
    return applyChange(tx, core, before, { change, membersBefore: await memberIds(tx, id) });
  });
};

/** Applies the operations of a PATCH to a group. Throws as `replaceGroup` and `groupChangeOf`. */
export const updateGroup = (
  core: ScimCore,
  id: string,
  operations: readonly ScimOperation[],
  origin: Origin,
): Promise<ScimGroupRow> =>
  push(core, origin, async (tx) => {
    const before = await findGroup(tx, id);
    const membersBefore = await memberIds(tx, id);
    const { displayName, externalId } = before;
    const change = groupChangeOf(
      { displayName, externalId, members: new Set(membersBefore) },
      operations,
    );
    await endHeldMembers(tx, before, { change, operations });
    return applyChange(tx, core, before, { change, membersBefore });
  });

/** Deletes the members held since a restore if the operations set or remove members. */
const endHeldMembers = async (
  tx: Executor,
  { id, displayName, externalId }: ScimGroupRow,
  { change, operations }: { change: GroupChange; operations: readonly ScimOperation[] },
) => {
  const held = await findHeldMembers(tx, id);
  if (held.length === 0) return;
  const { members } = groupChangeOf(
    { displayName, externalId, members: new Set(held) },
    operations,
  );
  const ended = held.filter((member) => change.members.has(member) || !members.has(member));
  await deleteHeldMembers(tx, id, ended);
};

/** Deletes a group: its members lose its scopes. Throws 404 `not_found`. */
export const deleteGroup = (core: ScimCore, id: string, origin: Origin): Promise<void> =>
  push(core, origin, async (tx) => {
    const before = await findGroup(tx, id);
    const userIds = isRole(before) ? await memberIds(tx, id) : [];
    await deleteScimGroup(tx, id);
    return { result: undefined, userIds };
  });

/** Finds a group. Throws 404 `not_found`. */
export const findGroup = async (db: Executor, id: string): Promise<ScimGroupRow> =>
  requireFound(isUuid(id) ? await findScimGroup(db, id) : undefined, "group");

/** A group with its members; none if the caller does not need them. */
interface GroupWithMembers {
  group: ScimGroupRow;
  members: readonly ScimMemberRow[];
}

/** Returns one page of the groups. Throws `scim_filter_invalid` for a filter that core does not support. */
export const listGroups = async (
  { db }: ScimCore,
  page: ScimPage,
  withMembers: boolean,
): Promise<ScimList<GroupWithMembers>> => {
  const { rows, total } = await withFilterProblem(() => listScimGroups(db, page));
  const ids = rows.map(({ id }) => id);
  const members = withMembers && ids.length > 0 ? await findScimMembers(db, ids) : [];
  const byGroup = Map.groupBy(members, ({ groupId }) => groupId);
  return { rows: rows.map((group) => ({ group, members: byGroup.get(group.id) ?? [] })), total };
};

/** Returns the members of a group. */
export const readMembers = ({ db }: ScimCore, groupId: string): Promise<ScimMemberRow[]> =>
  findScimMembers(db, [groupId]);

const applyChange = async (
  tx: Executor,
  { clock }: ScimCore,
  before: ScimGroupRow,
  { change, membersBefore }: { change: GroupChange; membersBefore: readonly string[] },
): Promise<Pushed<ScimGroupRow>> => {
  const { id, createdAt } = before;
  const row = rowOf(change, { id, createdAt, updatedAt: new Date(clock.now()) });
  await requireFreeName(tx, row);
  await updateScimGroup(tx, row);
  const oldMembers = new Set(membersBefore);
  const removed = membersBefore.filter((member) => !change.members.has(member));
  const added = [...change.members].filter((member) => !oldMembers.has(member));
  if (removed.length > 0) await deleteScimMembers(tx, id, removed);
  await addMembers(tx, id, added);
  if (!isRole(row) && !isRole(before)) return { result: row, userIds: [] };
  const isRenamed = row.displayNameKey !== before.displayNameKey;
  return {
    result: row,
    userIds: isRenamed ? [...new Set([...oldMembers, ...change.members])] : [...removed, ...added],
  };
};

const addMembers = async (tx: Executor, groupId: string, ids: readonly string[]) => {
  if (ids.length === 0) return;
  const unique = [...new Set(ids)];
  const known = await findScimUserIds(tx, unique.filter(isUuid));
  if (known.length < unique.length)
    throw new Problem("scim_value_invalid", { detail: "A member is no user of core" });
  await insertScimMembers(tx, groupId, unique);
};

const memberIds = async (tx: Executor, groupId: string): Promise<string[]> =>
  (await findScimMembers(tx, [groupId])).map(({ userId }) => userId);

const rowOf = (
  { displayName, externalId }: Pick<ScimGroupRow, "displayName" | "externalId">,
  kept: Pick<ScimGroupRow, "id" | "createdAt" | "updatedAt">,
): ScimGroupRow => ({ ...kept, displayName, displayNameKey: lowerAscii(displayName), externalId });

const isRole = ({ displayNameKey }: ScimGroupRow) =>
  Object.values(roleGroups).some((name) => name === displayNameKey);

const requireFreeName = async (tx: Executor, row: ScimGroupRow) => {
  if (await isGroupNameTaken(tx, row))
    throw new Problem("scim_value_taken", { detail: "Another group has this displayName" });
};

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
      if (name === "members") {
        patchMembers(members, operation, { filter: path.filter, sub: path.sub, value });
        continue;
      }
      if (path.filter || path.sub) throw unknownPath("group");
      if (name === "displayName") displayName = written;
      else if (name === "externalId") externalId = written;
      else checkIgnored(name);
    }
  const input = parseScim(ScimGroupInput, { displayName, externalId });
  return { displayName: input.displayName, externalId: input.externalId, members };
};

const checkIgnored = (name: string) => {
  refuseReadOnly(name);
  if (!name.startsWith("urn:")) throw unknownPath("group");
};

const patchMembers = (
  members: Set<string>,
  { op }: ScimOperation,
  { filter, sub, value }: { filter: ScimFilter | null; sub: string | null; value: unknown },
) => {
  if (filter) {
    if (op !== "remove" || sub !== null) throw unknownPath("group");
    for (const member of namedBy(filter)) members.delete(member);
    return;
  }
  if (sub !== null) throw unknownPath("group");
  // Entra ID names the members to remove in the value. Without one, all are removed (RFC 7644, 3.5.2.2).
  const isNamed = op !== "remove" || value != null;
  const named = isNamed ? parseScim(ScimMembers, value) : [...members];
  if (op === "replace") members.clear();
  for (const member of named) {
    if (op === "remove") members.delete(member);
    else members.add(member);
  }
};

/** Returns the members that a filter names, so that each of many operations need not compare the filter with every member. */
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
