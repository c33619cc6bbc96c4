/**
 * What a snapshot of the directory makes of the people core knows. Invariants: a person is found by the directory's id and by nothing
 * else, so neither an address that is used again nor an alias inherits anything; nobody is active who is not in the snapshot, but
 * those whose absence is held, and these gain no scope.
 */
import type { PersonStatus } from "../../../drizzle/schema/operator.ts";
import type { Scope } from "../../../proto/operator/scopes.ts";
import type { DirectorySnapshot, DirectoryUser } from "../../directory/snapshot.ts";

/** What core holds of a person. `subject` is the directory's id; null for one that no sync has written. */
export interface KnownPerson extends PersonState {
  userId: string;
  subject: string | null;
  /** Snapshots in a row that did not have this active person, while the absence was held. */
  missedSyncs: number;
}

/** What the directory decides of a person. */
export interface PersonState {
  primaryEmail: string;
  displayName: string;
  status: PersonStatus;
  scopes: readonly Scope[];
}

/** What is to be written. */
export interface DirectoryChanges {
  added: { subject: string; state: PersonState }[];
  /** Those who differ from what is known, in their state or in `missedSyncs`. */
  changed: { before: KnownPerson; after: KnownPerson }[];
  /** Active people who are not in the snapshot and stay active for now. */
  held: number;
}

/** What `decideDirectoryChanges` judges by. */
export interface DirectoryPolicy {
  /** In lower case. */
  domain: string;
  /** Believes every absence at once. */
  allowMassRemoval: boolean;
}

/** More than half of more than this many active people: a mass absence (contract, section 2, "Guard"). */
const massFrom = 10;
/** How many snapshots in a row must agree on an absence that is held. */
const agreeingSyncs = 3;
const displayNameMax = 200;

/**
 * Decides what a snapshot changes. Suspension, archiving, a foreign domain and groups apply at once; so does absence, unless more than
 * half of more than ten active people are missing: then each is held until three snapshots in a row have missed them.
 */
export const decideDirectoryChanges = (
  snapshot: DirectorySnapshot,
  known: readonly KnownPerson[],
  { domain, allowMassRemoval }: DirectoryPolicy,
): DirectoryChanges => {
  const scopesOf = scopesFrom(snapshot);
  const unseen = new Map(
    known.flatMap((person) => (person.subject === null ? [] : [[person.subject, person] as const])),
  );
  const changes: DirectoryChanges = { added: [], changed: [], held: 0 };
  const change = (before: KnownPerson, after: KnownPerson): void => {
    if (!isSame(before, after)) changes.changed.push({ before, after });
  };

  for (const user of snapshot.users) {
    const state = stateOf(user, { domain, scopes: scopesOf(user.id) });
    const before = unseen.get(user.id);
    unseen.delete(user.id);
    if (before === undefined) changes.added.push({ subject: user.id, state });
    else change(before, { ...before, ...state, missedSyncs: 0 });
  }

  const missing = [...unseen.values(), ...known.filter(({ subject }) => subject === null)];
  const active = known.filter(isActive).length;
  const isMass = !allowMassRemoval && active > massFrom && missing.filter(isActive).length * 2 > active;
  for (const before of missing) {
    const missedSyncs = before.missedSyncs + 1;
    if (isMass && isActive(before) && missedSyncs < agreeingSyncs) {
      const granted = scopesOf(before.subject);
      changes.held += 1;
      change(before, { ...before, missedSyncs, scopes: before.scopes.filter((scope) => granted.includes(scope)) });
    } else {
      change(before, { ...before, status: "absent", scopes: [], missedSyncs: 0 });
    }
  }
  return changes;
};

const isActive = ({ status }: KnownPerson): boolean => status === "active";

const stateOf = (
  user: DirectoryUser,
  { domain, scopes }: { domain: string; scopes: readonly Scope[] },
): PersonState => {
  const primaryEmail = lowerAscii(user.primaryEmail);
  const status = statusOf(user, isInDomain(primaryEmail, domain));
  return {
    primaryEmail,
    displayName: printable(user.displayName),
    status,
    scopes: status === "active" ? scopes : [],
  };
};

const statusOf = ({ suspended, archived }: DirectoryUser, isMember: boolean): PersonStatus => {
  if (suspended) return "suspended";
  if (archived) return "archived";
  return isMember ? "active" : "unverified";
};

/**
 * ASCII letters alone: Unicode's lower case makes an ASCII `k` of the Kelvin sign, and so a look-alike the very domain. Local parts lose
 * their case too, as the directory takes them.
 */
const lowerAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

const isInDomain = (email: string, domain: string): boolean => {
  const parts = email.split("@");
  return parts.length === 2 && parts[0] !== "" && parts[1] === domain;
};

/** Scopes by group (spec, "Operator login"); a missing group reduces them to `read`. */
const scopesFrom =
  ({ admins, auditors }: DirectorySnapshot) =>
  (subject: string | null): readonly Scope[] => {
    if (subject !== null && admins?.has(subject)) return ["read", "audit", "admin"];
    return subject !== null && auditors?.has(subject) ? ["read", "audit"] : ["read"];
  };

/** Without control characters, which neither a log line nor the database takes. */
const printable = (text: string): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim()
    .slice(0, displayNameMax)
    .toWellFormed();

const isSame = (a: KnownPerson, b: KnownPerson): boolean =>
  a.primaryEmail === b.primaryEmail &&
  a.displayName === b.displayName &&
  a.status === b.status &&
  a.missedSyncs === b.missedSyncs &&
  a.scopes.join() === b.scopes.join();
