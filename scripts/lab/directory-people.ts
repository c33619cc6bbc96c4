import { people } from "./people.ts";

/** A user of the directory. Absent flags are false. */
export interface LabUser {
  /** The immutable id, which is the identity provider's `sub`. */
  id: string;
  primaryEmail: string;
  fullName?: string;
  suspended?: boolean;
  archived?: boolean;
  aliases?: readonly string[];
}

/** A group. Members are ids of users, or addresses of nested groups. */
export interface DirectoryGroup {
  email: string;
  members: readonly string[];
}

/** Everything in the directory. */
export interface DirectoryState {
  users: readonly LabUser[];
  groups: readonly DirectoryGroup[];
}

/** The domain of tests and demo, and its role groups. */
export const directoryDomain = "example.test";
export const adminGroup = `svc-admin@${directoryDomain}`;
export const auditorGroup = `svc-auditor@${directoryDomain}`;

/** The people of people.ts in their groups: a sync derives the scopes that `people` has. */
export const usualDirectory: DirectoryState = {
  users: Object.values(people).map(({ subject, email, displayName }) => ({
    id: subject,
    primaryEmail: email,
    fullName: displayName,
  })),
  groups: [
    { email: adminGroup, members: [people.admin.subject] },
    { email: auditorGroup, members: [people.auditor.subject] },
  ],
};

/** A member of a group as `members.list` returns it. */
export interface ListedMember {
  id: string;
  email: string;
  type: "USER" | "GROUP";
}

/** Finds a group by its address, ignoring case. */
export const findLabGroup = (
  { groups }: DirectoryState,
  email: string,
): DirectoryGroup | undefined =>
  groups.find((group) => group.email.toLowerCase() === email.toLowerCase());

/** Returns direct members, and with `derived` those of nested groups too; a cycle of groups ends. */
export const membersOf = (
  state: DirectoryState,
  group: DirectoryGroup,
  derived: boolean,
): ListedMember[] => {
  const found = new Map<string, ListedMember>();
  const visit = ({ members }: DirectoryGroup): void => {
    for (const member of members) {
      if (found.has(member)) continue;
      const inner = findLabGroup(state, member);
      const user = state.users.find(({ id }) => id === member);
      if (user) found.set(member, { id: user.id, email: user.primaryEmail, type: "USER" });
      else found.set(member, { id: member, email: member, type: inner ? "GROUP" : "USER" });
      if (inner && derived) visit(inner);
    }
  };
  visit(group);
  return [...found.values()];
};
