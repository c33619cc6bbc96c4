import { people } from "./people.ts";

/** A user of the directory, as an administrator would describe one. Absent flags are false. */
export interface DirectoryUser {
  /** The immutable id, which is the identity provider's `sub`. */
  id: string;
  primaryEmail: string;
  fullName?: string;
  suspended?: boolean;
  archived?: boolean;
  aliases?: readonly string[];
}

/** A group by its address. Members are ids of users, or addresses of groups inside it. */
export interface DirectoryGroup {
  email: string;
  members: readonly string[];
}

/** What the directory holds at this moment. */
export interface DirectoryState {
  users: readonly DirectoryUser[];
  groups: readonly DirectoryGroup[];
}

/** The domain of tests and demo, and its role groups. */
export const directoryDomain = "example.test";
export const adminGroup = `svc-admin@${directoryDomain}`;
export const auditorGroup = `svc-auditor@${directoryDomain}`;

/** The people of scripts/lab/people.ts with their groups: a sync of them gives the scopes that `people` has. */
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

/** A member of a group as `members.list` tells it. */
export interface ListedMember {
  id: string;
  email: string;
  type: "USER" | "GROUP";
}

/** The group with this address, whatever its case; undefined when there is none. */
export const findGroup = ({ groups }: DirectoryState, email: string): DirectoryGroup | undefined =>
  groups.find((group) => group.email.toLowerCase() === email.toLowerCase());

/** Direct members, and with `derived` the members of groups inside it too; a circle of groups ends. */
export const membersOf = (state: DirectoryState, group: DirectoryGroup, derived: boolean): ListedMember[] => {
  const found = new Map<string, ListedMember>();
  const visit = ({ members }: DirectoryGroup): void => {
    for (const member of members) {
      if (found.has(member)) continue;
      const inner = findGroup(state, member);
      const user = state.users.find(({ id }) => id === member);
      if (user) found.set(member, { id: user.id, email: user.primaryEmail, type: "USER" });
      else found.set(member, { id: member, email: member, type: inner ? "GROUP" : "USER" });
      if (inner && derived) visit(inner);
    }
  };
  visit(group);
  return [...found.values()];
};
