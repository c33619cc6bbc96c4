import { Problem } from "#functions/problems.ts";
import { type ScimList, type ScimPage, UnsupportedFilter } from "#functions/store/scim/filter.ts";
import {
  findScimMembers,
  listScimGroups,
  type ScimGroupRow,
  type ScimMemberRow,
} from "#functions/store/scim/groups.ts";
import { listScimUsers, type ScimUserRow } from "#functions/store/scim/users.ts";
import type { ScimCore } from "./push.ts";

type Reading = Pick<ScimCore, "db">;

/** A group with its members; none if the caller does not need them. */
interface GroupWithMembers {
  group: ScimGroupRow;
  members: readonly ScimMemberRow[];
}

/** Returns one page of the users. Throws `scim_filter_invalid` for a filter that core does not support. */
export const listUsers = ({ db }: Reading, page: ScimPage): Promise<ScimList<ScimUserRow>> =>
  withFilterProblem(() => listScimUsers(db, page));

/** Returns one page of the groups. Throws `scim_filter_invalid` for a filter that core does not support. */
export const listGroups = async (
  { db }: Reading,
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
export const readMembers = ({ db }: Reading, groupId: string): Promise<ScimMemberRow[]> =>
  findScimMembers(db, [groupId]);

const withFilterProblem = async <Result>(list: () => Promise<Result>): Promise<Result> => {
  try {
    return await list();
  } catch (error) {
    if (!(error instanceof UnsupportedFilter)) throw error;
    throw new Problem("scim_filter_invalid", {
      detail: `The filter is not supported: ${error.message}`,
      cause: error,
    });
  }
};
