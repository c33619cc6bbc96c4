/**
 * What a snapshot of the directory makes of the people core knows. Invariants: a person is found by the directory's id and by nothing
 * else, so neither an address that is used again nor an alias inherits anything; nobody is active whom the snapshot does not have in
 * the domain, but those who are held, and these gain no scope.
 */
import type { PersonStatus } from "../../../drizzle/schema/operator.ts";
import type { Scope } from "../../../proto/operator/scopes.ts";
import type { DirectorySnapshot, DirectoryUser } from "../../directory/snapshot.ts";

/** What core holds of a person. `subject` is the directory's id; null for one that no sync has written. */
export interface KnownPerson extends PersonState {
  userId: string;
  subject: string | null;
  /** Snapshots in a row that did not have this active person, or not in the domain, while they were held. */
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
  /** Active people who are not in the snapshot, or not in the domain, and stay active for now. */
  held: number;
  /** Why they are; null when nobody is. */
  heldFor: HeldFor | null;
  /** The setting that looks wrong: people are there, and none of them, or suddenly few, in the domain. */
  suspectSetting: SuspectSetting | null;
}

/** What of a snapshot is not believed at once. */
export type HeldFor = "mass_absence" | "mass_unverified";

/** A variable of core's configuration. */
export type SuspectSetting = "SVC_DIRECTORY_DOMAIN";

/** What `decideDirectoryChanges` judges by. */
export interface DirectoryPolicy {
  /** In lower case. */
  domain: string;
  /** Believes everything at once. */
  allowMassRemoval: boolean;
}

/** More than half of more than this many active people: a mass (contract, section 2, "Guard"). */
const massFrom = 10;
/** How many snapshots in a row must agree on what is held. */
const agreeingSyncs = 3;
const displayNameMax = 200;

/**
 * Decides what a snapshot changes. Suspension, archiving and groups apply at once; so does that somebody is missing, or in another
 * domain, unless either befalls more than half of more than ten active people: then each of them is held until three snapshots in a
 * row have said so.
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
  const seen = snapshot.users.map((user) => ({
    subject: user.id,
    before: bySubject.get(user.id),
    state: stateOf(user, { domain, scopes: scopesOf(user.id) }),
  }));
  const seenIds = new Set(seen.map(({ subject }) => subject));
  const missing = known.filter(({ subject }) => subject === null || !seenIds.has(subject));
  const foreign = seen.flatMap(({ before, state }) => (before && state.status === "unverified" ? [before] : []));

  const active = known.filter(isActive).length;
  const isMass = (lost: readonly KnownPerson[]): boolean =>
    !allowMassRemoval && active > massFrom && lost.filter(isActive).length * 2 > active;
  const [absenceIsMass, foreignIsMass] = [isMass(missing), isMass(foreign)];

  const nobodyIsOurs =
    seen.some(({ state }) => state.status === "unverified") && !seen.some(({ state }) => isActive(state));
  const changes: DirectoryChanges = {
    added: [],
    changed: [],
    held: 0,
    heldFor: null,
    suspectSetting: foreignIsMass || nobodyIsOurs ? "SVC_DIRECTORY_DOMAIN" : null,
  };
  const change = (before: KnownPerson, after: KnownPerson): void => {
    if (!isSame(before, after)) changes.changed.push({ before, after });
  };
  const believe = (before: KnownPerson, state: PersonState): void =>
    change(before, { ...before, ...state, missedSyncs: 0 });
  const hold = (before: KnownPerson, state: PersonState, heldFor: HeldFor): void => {
    const after = heldOn(before, state, scopesOf(before.subject));
    if (after === null) believe(before, state);
    else {
      changes.held += 1;
      changes.heldFor = heldFor;
      change(before, after);
    }
  };

  for (const { subject, before, state } of seen) {
    if (before === undefined) changes.added.push({ subject, state });
    else if (foreignIsMass && isActive(before) && state.status === "unverified") hold(before, state, "mass_unverified");
    else believe(before, state);
  }
  for (const before of missing) {
    const { primaryEmail, displayName } = before;
    const state: PersonState = { primaryEmail, displayName, status: "absent", scopes: [] };
    if (absenceIsMass && isActive(before)) hold(before, state, "mass_absence");
    else believe(before, state);
  }
  return changes;
};

/** An active person who stays so for now, without the scopes that are gone; null when enough snapshots have agreed on `lost`. */
const heldOn = (before: KnownPerson, lost: PersonState, granted: readonly Scope[]): KnownPerson | null => {
  const missedSyncs = before.missedSyncs + 1;
  if (missedSyncs >= agreeingSyncs) return null;
  const scopes = before.scopes.filter((scope) => granted.includes(scope));
  return { ...before, ...lost, status: "active", scopes, missedSyncs };
};

const isActive = ({ status }: PersonState): boolean => status === "active";

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
