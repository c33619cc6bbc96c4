import type { DirectoryConfig } from "#functions/config/directory-config.ts";
import type { ConfiguredCore, TimedCore } from "#functions/core.ts";
import type { DirectoryFaultCode, DirectorySnapshot } from "#functions/directory/snapshot.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  confirmPeople,
  type DirectorySync,
  findKnownPeople,
  lockDirectorySync,
  type PersonRow,
  saveDirectorySync,
  writeAuthenticationIdentities,
  writePeople,
} from "#functions/store/directory/directory.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { type Actor, type AuditEntry, type Origin, recordAudits } from "../audit/audit-log.ts";
import {
  type DirectoryChanges,
  decideDirectoryChanges,
  type HeldFor,
  type PersonState,
  type SuspectSetting,
} from "./rules.ts";

/** The result of a snapshot. `superseded`: another sync ended while this snapshot was read, and nothing was written. */
export interface SnapshotReport {
  outcome: "synced" | "held" | "refused" | "superseded";
  users: number;
  added: number;
  changed: number;
  held: number;
  /** The setting that seems wrong by the snapshot; null for none. */
  suspectSetting: SuspectSetting | null;
}

const actor: Actor = { type: "system", id: "directory-sync", display: "directory sync" };
/** The actor of an identity provider's pushes. */
export const scimActor: Actor = { type: "system", id: "scim", display: "SCIM" };
/** The most people in one entry, because a first sync adds the whole directory. */
const peopleMax = 200;

/**
 * Applies a snapshot to the people in the database, in one transaction with its audit events. Rejects a snapshot without users, and holds
 * people whom it would remove in a mass (docs/directory.md). `syncsBefore` is the number of syncs that had ended when reading began, so
 * that a slow read never undoes a newer one.
 */
export const applyDirectorySnapshot = (
  core: ConfiguredCore,
  snapshot: DirectorySnapshot,
  { syncsBefore }: { syncsBefore: number },
): Promise<SnapshotReport> =>
  core.db.transaction(async (tx) => {
    const users = snapshot.users.length;
    const last = await lockDirectorySync(tx);
    if ((last?.syncs ?? 0) !== syncsBefore) return { ...noChanges, users, outcome: "superseded" };
    if (users === 0) {
      await recordEmptySnapshot(tx, core, last);
      return { ...noChanges, users, outcome: "refused" };
    }
    const { directory, tenantId } = core.config;
    const now = new Date(core.clock.now());
    const changes = decideDirectoryChanges(
      snapshot,
      await findKnownPeople(tx, tenantId),
      directory,
    );
    const { held, heldFor, suspectSetting } = changes;
    await writeDirectoryChanges(tx, core, changes, now);
    await confirmPeople(tx, now);
    const missingGroups = missingGroupsOf(snapshot, directory);
    const outcome = held > 0 ? "held" : "synced";
    await saveDirectorySync(tx, {
      syncs: syncsBefore + 1,
      finishedAt: now,
      outcome,
      reasonCode: heldFor,
      syncedAt: now,
      pushedAt: last?.pushedAt ?? null,
      failures: 0,
      missingGroups,
    });
    await recordAudits(tx, core, [
      ...syncEntries(directory.domain, {
        snapshot,
        changes,
        missingGroups,
        isFirst: last?.syncedAt == null,
      }),
      ...(heldFor ? [refusalEntry(directory.domain, heldFor, { held, users })] : []),
    ]);
    return {
      outcome,
      users,
      added: changes.added.length,
      changed: changes.changed.length,
      held,
      suspectSetting,
    };
  });

const noChanges = { added: 0, changed: 0, held: 0, suspectSetting: null };

/** Records an empty snapshot, and audits the first of several in a row. */
const recordEmptySnapshot = async (
  tx: Executor,
  core: ConfiguredCore,
  last: DirectorySync | undefined,
) => {
  await saveDirectorySync(
    tx,
    failedSync(core, last, { outcome: "refused", reasonCode: "no_users" }),
  );
  if (last?.reasonCode === "no_users") return;
  await recordAudits(tx, core, [refusalEntry(core.config.directory.domain, "no_users", {})]);
};

/** Returns the record of a sync that wrote no snapshot: the previous one stays the newest. */
const failedSync = (
  { clock }: TimedCore,
  last: DirectorySync | undefined,
  end: Pick<DirectorySync, "outcome" | "reasonCode">,
): DirectorySync => ({
  ...end,
  syncs: (last?.syncs ?? 0) + 1,
  finishedAt: new Date(clock.now()),
  syncedAt: last?.syncedAt ?? null,
  pushedAt: last?.pushedAt ?? null,
  failures: (last?.failures ?? 0) + 1,
  missingGroups: last?.missingGroups ?? [],
});

/** Writes the changed people, and new ones with their subjects. */
export const writeDirectoryChanges = async (
  tx: Executor,
  core: Pick<ConfiguredCore, "config" | "clock" | "entropy">,
  { added, changed }: DirectoryChanges,
  syncedAt: Date,
) => {
  const { tenantId } = core.config;
  const people = added.map(({ subject, state }) => ({ subject, userId: uuidv7(core), state }));
  const rowOf = ({ primaryEmail, displayName, status, scopes }: PersonState) => ({
    primaryEmail,
    displayName,
    status,
    scopes: [...scopes],
    syncedAt,
    missedSyncs: 0,
  });
  const rows: PersonRow[] = [
    ...people.map(({ userId, state }) => ({ ...rowOf(state), userId })),
    ...changed.map(({ after }) => ({
      ...rowOf(after),
      userId: after.userId,
      missedSyncs: after.missedSyncs,
    })),
  ];
  await writePeople(tx, rows);
  await writeAuthenticationIdentities(
    tx,
    people.map(({ subject, userId }) => ({ tenantId, subject, userId })),
  );
};

/** Returns the names of the role groups that a snapshot lacks; the groups of SCIM have no addresses. */
export const missingGroupsOf = (
  { admins, auditors }: Pick<DirectorySnapshot, "admins" | "auditors">,
  { provider, domain }: Pick<DirectoryConfig, "provider" | "domain">,
): string[] => {
  const suffix = provider.kind === "scim" ? "" : `@${domain}`;
  return [
    ...(admins === null ? [`svc-admin${suffix}`] : []),
    ...(auditors === null ? [`svc-auditor${suffix}`] : []),
  ];
};

/** Records that the directory could not be read, and why; people stay unchanged. */
export const recordDirectoryFailure = (
  core: TimedCore,
  reasonCode: DirectoryFaultCode,
): Promise<void> =>
  core.db.transaction(async (tx) => {
    const last = await lockDirectorySync(tx);
    await saveDirectorySync(tx, failedSync(core, last, { outcome: "failed", reasonCode }));
  });

/**
 * Returns the entry of a sync that changed access: people added, and people whose status, scopes or address changed. Returns none without
 * changes, except for the first snapshot.
 */
export const syncEntries = (
  domain: string,
  sync: {
    snapshot: DirectorySnapshot;
    changes: DirectoryChanges;
    missingGroups: readonly string[];
    isFirst: boolean;
    /** The request that pushed the change; absent for a sync. */
    push?: Origin;
  },
): AuditEntry[] => {
  const { snapshot, changes, missingGroups, isFirst, push } = sync;
  const changed = changes.changed.filter(({ before, after }) => !isSameAccess(before, after));
  const count = changes.added.length + changed.length;
  if (count === 0 && !isFirst) return [];
  // People with most scopes first, before or after the sync; among equals, changed people before new ones.
  const people = [
    ...changed.map(({ before, after }) => ({
      subject: before.subject,
      user_id: before.userId,
      from: accessOf(before),
      to: accessOf(after),
    })),
    ...changes.added.map(({ subject, state }) => ({ subject, from: null, to: accessOf(state) })),
  ]
    .toSorted((one, other) => scopeCountOf(other) - scopeCountOf(one))
    .slice(0, peopleMax);
  return [
    {
      actor: push ? scimActor : actor,
      ...(push ? { origin: push } : {}),
      action: "directory.sync",
      target: { type: "directory", id: domain },
      outcome: "success",
      details: {
        users: snapshot.users.length,
        added: changes.added.length,
        changed: changed.length,
        held: changes.held,
        missing_groups: missingGroups,
        people,
        people_left_out: count - people.length,
      },
    },
  ];
};

/** Returns the properties of an entry that list people with their scopes. */
export const peopleOf = (
  people: readonly { userId: string; primaryEmail: string; scopes: readonly string[] }[],
): { people: object[]; people_left_out: number } => ({
  people: people
    .slice(0, peopleMax)
    .map(({ userId, primaryEmail, scopes }) => ({ user_id: userId, email: primaryEmail, scopes })),
  people_left_out: Math.max(0, people.length - peopleMax),
});

/** Scopes always have the order in which `rules.ts` lists them. */
const isSameAccess = (one: PersonState, other: PersonState) =>
  one.primaryEmail === other.primaryEmail &&
  one.status === other.status &&
  one.scopes.join() === other.scopes.join();

const accessOf = ({ primaryEmail, status, scopes }: PersonState) => ({
  email: primaryEmail,
  status,
  scopes,
});

type Scoped = Pick<PersonState, "scopes">;

const scopeCountOf = ({ from, to }: { from: Scoped | null; to: Scoped }) =>
  Math.max(from?.scopes.length ?? 0, to.scopes.length);

/** Returns the entry of a snapshot, or a part of one, that was not applied. */
const refusalEntry = (
  domain: string,
  reason: "no_users" | HeldFor,
  details: Record<string, unknown>,
): AuditEntry => ({
  actor,
  action: "directory.refuse",
  target: { type: "directory", id: domain },
  outcome: "failure",
  reason,
  details,
});
