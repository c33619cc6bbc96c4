import type { ConfiguredCore, Core } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { findRestoredAt } from "#functions/store/database/lineage.ts";
import { findKnownPeople, lockDirectorySync } from "#functions/store/directory/directory.ts";
import {
  type AccessRow,
  countHeldAccess,
  findHeldAccess,
  type HeldAccess,
  releasePeople,
  releaseScim,
  supersedeSyncs,
} from "#functions/store/scim/held-access.ts";
import { findAllScimUsers } from "#functions/store/scim/users.ts";
import { lowerAscii } from "#kit/lower-ascii.ts";
import { recordAudit } from "../audit/audit-log.ts";
import { peopleOf, writeDirectoryChanges } from "../directory/apply-snapshot.ts";
import { decideDirectoryChanges } from "../directory/rules.ts";
import { roleGroups, scimSnapshot, subjectOf } from "./push.ts";

/** Returns the people and memberships held since a restore. */
export const listHeldAccess = ({ db }: Pick<Core, "db">): Promise<HeldAccess> =>
  findHeldAccess(db, Object.values(roleGroups));

/** The numbers of held people and memberships, and when core last detected a restore; null if never. */
interface HeldCounts {
  people: number;
  memberships: number;
  restoredAt: Date | null;
}

/** Counts the access held since a restore. */
export const readHeldCounts = async ({ db }: Pick<Core, "db">): Promise<HeldCounts> => {
  const [counts, restoredAt] = await Promise.all([
    countHeldAccess(db, Object.values(roleGroups)),
    findRestoredAt(db),
  ]);
  return { ...counts, restoredAt };
};

/** The confirmed access, and the addresses of nobody whose access is held. */
interface ConfirmedAccess {
  people: AccessRow[];
  unknown: string[];
}

/**
 * Gives people the access that a restored backup grants them: those with these addresses, or all. Changes nothing if an address is unknown.
 * Audited with `operator`, the user of the machine.
 */
export const confirmAccess = (
  core: ConfiguredCore,
  { emails, operator }: { emails: readonly string[] | null; operator: string },
): Promise<ConfirmedAccess> =>
  core.db.transaction(async (tx) => {
    await lockDirectorySync(tx);
    const named = emails?.map(lowerAscii) ?? null;
    const known = new Set(
      (await findKnownPeople(tx, core.config.tenantId)).map(({ primaryEmail }) => primaryEmail),
    );
    const unknown = named?.filter((email) => !known.has(email)) ?? [];
    if (unknown.length > 0) return { people: [], unknown };
    const released = await releasePeople(tx, named);
    await releaseScimAccess(tx, core, named);
    await supersedeSyncs(tx);
    await recordAudit(tx, core, {
      actor: {
        type: "system",
        id: "svc-server",
        display: `svc-server confirm-access (${operator})`,
      },
      action: "directory.confirm",
      target: { type: "directory", id: core.config.directory.domain },
      outcome: "success",
      details: { all: named === null, confirmed: released.length, ...peopleOf(released) },
    });
    return { people: released, unknown };
  });

/** Restores the held users and memberships of SCIM, and applies them to people. */
const releaseScimAccess = async (
  tx: Executor,
  { config, clock, entropy }: ConfiguredCore,
  emails: readonly string[] | null,
) => {
  const { provider, domain } = config.directory;
  const now = new Date(clock.now());
  if (provider.kind !== "scim") {
    if (emails === null) await releaseScim(tx, null, now);
    return;
  }
  const known = await findKnownPeople(tx, config.tenantId);
  const chosen = known.filter(
    ({ primaryEmail }) => emails === null || emails.includes(primaryEmail),
  );
  const subjects = new Set(chosen.map(({ subject }) => subject));
  const isChosen = (row: Parameters<typeof subjectOf>[0]) =>
    subjects.has(subjectOf(row, provider.subject));
  const ids = (await findAllScimUsers(tx)).filter(isChosen).map(({ id }) => id);
  await releaseScim(tx, emails === null ? null : ids, now);
  const rows = (await findAllScimUsers(tx)).filter(({ id }) => ids.includes(id));
  const snapshot = await scimSnapshot(tx, rows, { subject: provider.subject, isWhole: false });
  const changes = decideDirectoryChanges(snapshot, chosen, { domain, allowMassRemoval: true });
  await writeDirectoryChanges(tx, { config, clock, entropy }, changes, now);
};
