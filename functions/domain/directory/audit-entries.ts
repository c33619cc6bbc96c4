import type { DirectorySnapshot } from "../../directory/snapshot.ts";
import type { Actor, AuditEntry } from "../audit/audit-log.ts";
import type { DirectoryChanges, HeldFor, PersonState } from "./rules.ts";

const actor: Actor = { type: "system", id: "directory-sync", display: "directory sync" };
/** So many people are told of by name; a first sync has them all. */
const peopleMax = 200;

/**
 * What a sync changed in what people may do: who was added, whose status, scopes or address are others now. Nothing when nothing did,
 * but for the first snapshot of all.
 */
export const syncEntry = (
  domain: string,
  sync: { snapshot: DirectorySnapshot; changes: DirectoryChanges; missingGroups: readonly string[]; isFirst: boolean },
): AuditEntry[] => {
  const { snapshot, changes, missingGroups, isFirst } = sync;
  const changed = changes.changed.filter(({ before, after }) => !isSameAccess(before, after));
  const count = changes.added.length + changed.length;
  if (count === 0 && !isFirst) return [];
  // Whose access was changed goes before whoever is new.
  const people = [
    ...changed.slice(0, peopleMax).map(({ before, after }) => ({
      subject: before.subject,
      user_id: before.userId,
      from: accessOf(before),
      to: accessOf(after),
    })),
    ...changes.added.slice(0, peopleMax).map(({ subject, state }) => ({ subject, from: null, to: accessOf(state) })),
  ].slice(0, peopleMax);
  return [
    {
      actor,
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

const isSameAccess = (a: PersonState, b: PersonState): boolean =>
  a.primaryEmail === b.primaryEmail && a.status === b.status && a.scopes.join() === b.scopes.join();

const accessOf = ({ primaryEmail, status, scopes }: PersonState) => ({ email: primaryEmail, status, scopes });

/** Of what a snapshot says, this was not believed. */
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
