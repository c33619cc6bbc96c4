import type { ScimSubject } from "#functions/config/directory-config.ts";
import type { DirectorySnapshot, DirectoryUser } from "#functions/directory/snapshot.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { findRoleMembers } from "#functions/store/scim/groups.ts";
import { findAllScimUsers, type ScimUserRow } from "#functions/store/scim/users.ts";

/** The groups that grant scopes, by their key. */
export const roleGroups = { admins: "svc-admin", auditors: "svc-auditor" } as const;

/** Returns the subject of a user at the identity provider; null if the user lacks the configured attribute. */
export const subjectOf = (
  row: Pick<ScimUserRow, "id" | "userName" | "externalId">,
  subject: ScimSubject,
) => row[subject];

/** Returns the snapshot of these users, with the members of the role groups among them. */
export const scimSnapshot = async (
  db: Executor,
  rows: readonly ScimUserRow[],
  { subject, isWhole }: { subject: ScimSubject; isWhole: boolean },
): Promise<DirectorySnapshot> => {
  const subjects = new Map(rows.map((row) => [row.id, subjectOf(row, subject)]));
  const members = await findRoleMembers(
    db,
    Object.values(roleGroups),
    isWhole ? undefined : [...subjects.keys()],
  );
  const subjectsOf = (group: string): Set<string> | null => {
    const ids = members.get(group);
    return ids ? new Set([...ids].flatMap((id) => subjects.get(id) ?? [])) : null;
  };
  return {
    users: rows.flatMap((row) => directoryUserOf(row, subjects.get(row.id) ?? null)),
    admins: subjectsOf(roleGroups.admins),
    auditors: subjectsOf(roleGroups.auditors),
  };
};

/** Reads all pushed users and groups into one snapshot. */
export const readScimSnapshot = async (
  db: Executor,
  subject: ScimSubject,
): Promise<DirectorySnapshot> =>
  scimSnapshot(db, await findAllScimUsers(db), { subject, isWhole: true });

/** Returns none for a user without a subject, as after a change of `SVC_DIRECTORY_SCIM_SUBJECT`. */
const directoryUserOf = (row: ScimUserRow, subject: string | null): DirectoryUser[] =>
  subject === null
    ? []
    : [
        {
          id: subject,
          primaryEmail: addressOf(row),
          displayName: nameOf(row),
          suspended: !(row.active || row.held),
          archived: false,
          held: row.held && !row.active,
        },
      ];

const addressOf = ({ emails, userName }: ScimUserRow) => {
  const email =
    emails.find(({ primary }) => primary) ??
    emails.find(({ type }) => type === "work") ??
    emails[0];
  return email?.value ?? userName;
};

const nameOf = ({ displayName, name, userName }: ScimUserRow) =>
  displayName ??
  name.formatted ??
  ([name.givenName, name.familyName].filter(Boolean).join(" ") || userName);
