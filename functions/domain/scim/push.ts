import type { ScimProvider } from "#functions/config/directory-config.ts";
import type { ConfiguredCore } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  type DirectorySync,
  findPeopleOfSubjects,
  lockDirectorySync,
  saveDirectorySync,
} from "#functions/store/directory/directory.ts";
import { findScimUsers, type ScimUserRow } from "#functions/store/scim/users.ts";
import { type Origin, recordAudits } from "../audit/audit-log.ts";
import { missingGroupsOf, syncEntry, writeDirectoryChanges } from "../directory/apply-snapshot.ts";
import { decideDirectoryChanges } from "../directory/rules.ts";
import { scimSnapshot, subjectOf } from "./directory-user.ts";

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
  const entry = syncEntry(directory.domain, {
    snapshot,
    changes,
    missingGroups,
    isFirst: false,
    push: origin,
  });
  await recordAudits(tx, core, entry);
};
