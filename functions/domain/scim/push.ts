import type { ScimProvider, ScimSubject } from "#functions/config/directory-config.ts";
import type { ConfiguredCore } from "#functions/core.ts";
import type { DirectorySnapshot, DirectoryUser } from "#functions/directory/snapshot.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  type DirectorySync,
  findPeopleOfSubjects,
  lockDirectorySync,
  saveDirectorySync,
} from "#functions/store/directory/directory.ts";
import { findRoleMembers } from "#functions/store/scim/groups.ts";
import { findAllScimUsers, findScimUsers, type ScimUserRow } from "#functions/store/scim/users.ts";
import { type Origin, recordAudits } from "../audit/audit-log.ts";
import {
  missingGroupsOf,
  syncEntries,
  writeDirectoryChanges,
} from "../directory/apply-snapshot.ts";
import { decideDirectoryChanges } from "../directory/rules.ts";

/** The parts of core that serve SCIM, and the provider's settings. */
export type ScimCore = ConfiguredCore & { scim: ScimProvider };

/** The result of a write, and the users whose access it may change. */
export interface Pushed<Result> {
  result: Result;
  /** Ids of users whose row or role groups changed. */
  userIds: readonly string[];
  /** Their earlier rows, if their subject may have changed or ended. */
  before?: readonly ScimUserRow[];
}

/**
 * Runs a write of SCIM resources and applies it to people, in one transaction with its audit event. Writes run one at a time across all
 * cores. Holds nobody: each push names what it changes (docs/scim.md).
 */
export const push = <Result>(
  core: ScimCore,
  origin: Origin,
  write: (tx: Executor) => Promise<Pushed<Result>>,
): Promise<Result> =>
  core.db.transaction(async (tx) => {
    const last = await lockDirectorySync(tx);
    const { result, userIds, before = [] } = await write(tx);
    await applyToPeople(tx, core, { last, userIds, before, origin });
    return result;
  });

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

const applyToPeople = async (
  tx: Executor,
  core: ScimCore,
  {
    last,
    userIds,
    before,
    origin,
  }: {
    last: DirectorySync | undefined;
    userIds: readonly string[];
    before: readonly ScimUserRow[];
    origin: Origin;
  },
) => {
  const { config, scim, clock } = core;
  const { directory, tenantId } = config;
  const now = new Date(clock.now());
  const rows = userIds.length === 0 ? [] : await findScimUsers(tx, userIds);
  const snapshot = await scimSnapshot(tx, rows, { subject: scim.subject, isWhole: false });
  const subjects = [...before, ...rows].flatMap((row) => subjectOf(row, scim.subject) ?? []);
  const known =
    subjects.length === 0 ? [] : await findPeopleOfSubjects(tx, tenantId, [...new Set(subjects)]);
  const changes = decideDirectoryChanges(snapshot, known, {
    domain: directory.domain,
    allowMassRemoval: true,
  });
  await writeDirectoryChanges(tx, core, changes, now);
  const missingGroups = missingGroupsOf(snapshot, directory);
  await saveDirectorySync(tx, {
    syncs: (last?.syncs ?? 0) + 1,
    // Keeps a sync that holds people; not a failure of an earlier provider.
    finishedAt: last?.finishedAt ?? now,
    outcome: last?.outcome === "held" ? "held" : "synced",
    reasonCode: last?.outcome === "held" ? last.reasonCode : null,
    syncedAt: now,
    pushedAt: now,
    failures: 0,
    missingGroups,
  });
  const entries = syncEntries(directory.domain, {
    snapshot,
    changes,
    missingGroups,
    isFirst: false,
    push: origin,
  });
  await recordAudits(tx, core, entries);
};
