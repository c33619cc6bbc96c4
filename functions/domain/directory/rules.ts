/**
 * Decides how a snapshot of the directory changes the people that core knows. Invariants:
 * - Only the directory's id identifies a person, so that a reused address or an alias inherits nothing.
 * - Only people in the snapshot and in the domain are active, and held people, who gain no scope.
 */

import type { PersonStatus } from "#drizzle/schema/operator.ts";
import type { DirectorySnapshot, DirectoryUser } from "#functions/directory/snapshot.ts";
import { lowerAscii } from "#kit/lower-ascii.ts";
import type { Scope } from "#proto/operator/scopes.ts";

/** A person in the database. `subject` is the directory's id; null if no sync has written the person. */
export interface KnownPerson extends PersonState {
  userId: string;
  subject: string | null;
  /** Consecutive snapshots that lacked this active person, or had them outside the domain, while they were held. */
  missedSyncs: number;
}

/** The state of a person, as the directory determines it. */
export interface PersonState {
  primaryEmail: string;
  displayName: string;
  status: PersonStatus;
  scopes: readonly Scope[];
}

/** The changes to write. */
export interface DirectoryChanges {
  added: { subject: string; state: PersonState }[];
  /** People whose state or `missedSyncs` differs from the database. */
  changed: { before: KnownPerson; after: KnownPerson }[];
  /** Active people who are missing from the snapshot, or outside the domain, and stay active for now. */
  held: number;
  /** The reason why people are held; null if none are. */
  heldFor: HeldFor | null;
  /** The setting that looks wrong: none or suddenly few of the people are in the domain. */
  suspectSetting: SuspectSetting | null;
}

/** The reason why a part of a snapshot is not applied immediately. */
export type HeldFor = "mass_absence" | "mass_unverified";

/** A variable of core's configuration. */
export type SuspectSetting = "SVC_DIRECTORY_DOMAIN";

/** The settings of `decideDirectoryChanges`. */
export interface DirectoryPolicy {
  /** In lower case. */
  domain: string;
  /** Applies every snapshot at once. */
  allowMassRemoval: boolean;
}

/** More than half of more than this many active people is a mass (docs/directory.md). */
const massFrom = 10;
/** Consecutive snapshots that must agree before held people are removed. */
const agreeingSyncs = 3;
const displayNameMax = 200;

/**
 * Decides what a snapshot changes. Suspension, archiving and groups apply at once, and so does the removal of a person who is missing or
 * outside the domain. If that would remove more than half of more than ten active people, each of them is held until three consecutive
 * snapshots agree.
 */
export const decideDirectoryChanges = (
  snapshot: DirectorySnapshot,
  known: readonly KnownPerson[],
  { domain, allowMassRemoval }: DirectoryPolicy,
): DirectoryChanges => {
  const scopesOf = scopesFrom(snapshot);
  const bySubject = new Map(
    known.flatMap((person) => (person.subject === null ? [] : [[person.subject, person] as const])),
  );
  const seen = snapshot.users.map((user) => {
    const before = bySubject.get(user.id);
    return {
      subject: user.id,
      before,
      state: stateOf(user, { domain, scopes: scopesOf(user.id), before }),
    };
  });
  const seenIds = new Set(seen.map(({ subject }) => subject));
  const missing = known.filter(({ subject }) => subject === null || !seenIds.has(subject));
  const foreign = seen.flatMap(({ before, state }) =>
    before && state.status === "unverified" ? [before] : [],
  );

  const active = known.filter(isActive).length;
  const isMass = (lost: readonly KnownPerson[]) =>
    !allowMassRemoval && active > massFrom && lost.filter(isActive).length * 2 > active;
  const absenceIsMass = isMass(missing);
  const foreignIsMass = isMass(foreign);

  const nobodyIsOurs =
    seen.some(({ state }) => state.status === "unverified") &&
    !seen.some(({ state }) => isActive(state) || state.status === "held");
  const changes: DirectoryChanges = {
    added: [],
    changed: [],
    held: 0,
    heldFor: null,
    suspectSetting: foreignIsMass || nobodyIsOurs ? "SVC_DIRECTORY_DOMAIN" : null,
  };
  const change = (before: KnownPerson, after: KnownPerson) => {
    if (!isSame(before, after)) changes.changed.push({ before, after });
  };
  const apply = (before: KnownPerson, state: PersonState) =>
    change(before, { ...before, ...state, missedSyncs: 0 });
  const holdOrApply = (before: KnownPerson, state: PersonState, heldFor: HeldFor) => {
    const after = stayActive(before, state, scopesOf(before.subject));
    if (after === null) apply(before, state);
    else {
      changes.held += 1;
      changes.heldFor = heldFor;
      change(before, after);
    }
  };

  for (const { subject, before, state } of seen) {
    if (before === undefined) changes.added.push({ subject, state });
    else if (foreignIsMass && isActive(before) && state.status === "unverified")
      holdOrApply(before, state, "mass_unverified");
    else apply(before, state);
  }
  for (const before of missing) {
    const { primaryEmail, displayName } = before;
    const state: PersonState = { primaryEmail, displayName, status: "absent", scopes: [] };
    if (absenceIsMass && isActive(before)) holdOrApply(before, state, "mass_absence");
    else apply(before, state);
  }
  return changes;
};

/** Returns the person as still active, without revoked scopes; null when enough snapshots agree on the state `lost`. */
const stayActive = (
  before: KnownPerson,
  lost: PersonState,
  granted: readonly Scope[],
): KnownPerson | null => {
  const missedSyncs = before.missedSyncs + 1;
  if (missedSyncs >= agreeingSyncs) return null;
  const scopes = before.scopes.filter((scope) => granted.includes(scope));
  return { ...before, ...lost, status: "active", scopes, missedSyncs };
};

const isActive = ({ status }: PersonState) => status === "active";

const stateOf = (
  user: DirectoryUser,
  {
    domain,
    scopes,
    before,
  }: { domain: string; scopes: readonly Scope[]; before: KnownPerson | undefined },
): PersonState => {
  // Also the local part, as in the directory.
  const primaryEmail = lowerAscii(user.primaryEmail);
  const status = statusOf(user, isInDomain(primaryEmail, domain));
  // The scopes of the backup, which an operator of the machine may confirm.
  const heldScopes = status === "held" && before?.status === "held" ? before.scopes : [];
  return {
    primaryEmail,
    displayName: printable(user.displayName),
    status,
    scopes: status === "active" ? scopes : heldScopes,
  };
};

const statusOf = (
  { suspended, archived, held }: DirectoryUser,
  isMember: boolean,
): PersonStatus => {
  if (suspended) return "suspended";
  if (archived) return "archived";
  if (!isMember) return "unverified";
  return held ? "held" : "active";
};

const isInDomain = (email: string, domain: string) => {
  const parts = email.split("@");
  return parts.length === 2 && parts[0] !== "" && parts[1] === domain;
};

/** Returns the scopes of a person by group (docs/sign-in.md); `read` if the groups are unknown. */
const scopesFrom =
  ({ admins, auditors }: DirectorySnapshot) =>
  (subject: string | null): readonly Scope[] => {
    if (subject !== null && admins?.has(subject)) return ["read", "audit", "admin"];
    return subject !== null && auditors?.has(subject) ? ["read", "audit"] : ["read"];
  };

/** Replaces control characters, which break log lines and which the database rejects. */
const printable = (text: string) =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim()
    .slice(0, displayNameMax)
    .toWellFormed();

const isSame = (a: KnownPerson, b: KnownPerson) =>
  a.primaryEmail === b.primaryEmail &&
  a.displayName === b.displayName &&
  a.status === b.status &&
  a.missedSyncs === b.missedSyncs &&
  a.scopes.join() === b.scopes.join();
