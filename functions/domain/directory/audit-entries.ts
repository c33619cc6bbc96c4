import type { DirectorySnapshot } from "#functions/directory/snapshot.ts";
import type { Actor, AuditEntry, Origin } from "../audit/audit-log.ts";
import type { DirectoryChanges, HeldFor, PersonState } from "./rules.ts";

const actor: Actor = { type: "system", id: "directory-sync", display: "directory sync" };
/** The actor of an identity provider's pushes. */
export const scimActor: Actor = { type: "system", id: "scim", display: "SCIM" };
/** The most people in one entry, because a first sync adds the whole directory. */
const peopleMax = 200;

/**
 * Returns the entry of a sync that changed access: people added, and people whose status, scopes or address changed. Returns none without
 * changes, except for the first snapshot.
 */
export const syncEntry = (
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
    .toSorted((one, other) => scopesOf(other) - scopesOf(one))
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

const isSameAccess = (a: PersonState, b: PersonState) =>
  a.primaryEmail === b.primaryEmail && a.status === b.status && a.scopes.join() === b.scopes.join();

const accessOf = ({ primaryEmail, status, scopes }: PersonState) => ({
  email: primaryEmail,
  status,
  scopes,
});

type Scoped = Pick<PersonState, "scopes">;

const scopesOf = ({ from, to }: { from: Scoped | null; to: Scoped }) =>
  Math.max(from?.scopes.length ?? 0, to.scopes.length);

/** Returns the entry of a snapshot, or a part of one, that was not applied. */
export const refusalEntry = (
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
