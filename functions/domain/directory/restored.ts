/**
 * Detects that the database is a restored backup, pauses its rollouts, and holds the access that it grants: people who were dismissed since
 * the backup are active in it. Invariants:
 * - A core serves no request before its first check.
 * - Held access becomes active only by a later push or snapshot of the directory, or by `svc-server confirm-access`.
 */

import type { Core } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { type DatabaseIdentity, readDatabaseIdentity } from "#functions/store/database/identity.ts";
import {
  type FoundLineage,
  findLineage,
  type LineageState,
  saveLineage,
} from "#functions/store/database/lineage.ts";
import { lockDirectorySync } from "#functions/store/directory/directory.ts";
import { pauseRestoredRollouts } from "#functions/store/rollout/rollouts.ts";
import { holdAllAccess } from "#functions/store/scim/held-access.ts";
import { type AuditEntry, coreActor, recordAudits } from "../audit/audit-log.ts";
import { peopleOf } from "./apply-snapshot.ts";

/** How core detected a restore. */
type RestoreReason =
  /** The rows were copied: a dump was loaded. */
  | "rows_copied"
  | "other_server"
  | "other_database"
  /** Recovered from an archive, or a standby was promoted while no core ran. */
  | "other_timeline"
  /** The database lacks what this core has seen in it. */
  | "state_lost"
  /** `svc-server hold-access`. */
  | "operator";

/** The parts of core that detect a restore. */
export type RestoreCore = Pick<Core, "config" | "db" | "clock" | "entropy" | "log">;

/** Returns how the database differs from the one that core left; null if it does not. `seen` is what this process remembers of it. */
export const restoreReasonOf = (
  { lineage, syncs }: { lineage: FoundLineage | undefined; syncs: number },
  identity: DatabaseIdentity,
  seen: LineageState | null,
): RestoreReason | null => {
  if (lineage === undefined) return seen === null ? null : "state_lost";
  if (
    seen !== null &&
    (lineage.epoch < seen.epoch || (lineage.epoch === seen.epoch && syncs < seen.syncs))
  )
    return "state_lost";
  if (!lineage.isOriginal) return "rows_copied";
  if (differs(lineage.systemIdentifier, identity.systemIdentifier)) return "other_server";
  if (lineage.databaseOid !== identity.databaseOid) return "other_database";
  // A process that ran throughout knows that it has lost nothing: a standby was promoted.
  return seen === null && differs(lineage.timeline, identity.timeline) ? "other_timeline" : null;
};

const differs = <Value>(a: Value | null, b: Value | null) => a !== null && b !== null && a !== b;

const isSame = (a: DatabaseIdentity, b: DatabaseIdentity) =>
  a.systemIdentifier === b.systemIdentifier &&
  a.databaseOid === b.databaseOid &&
  a.timeline === b.timeline;

/**
 * Creates the check: it compares the database with the one that core left, holds all access if it was restored, and stores its present
 * identity. Call it before serving, and every second, because the database may be restored under a running core. Returns why it was
 * restored, once to each running core, whichever holds the access.
 */
export const createRestoreCheck = (core: RestoreCore): (() => Promise<RestoreReason | null>) => {
  let seen: LineageState | null = null;
  return async () => {
    const identity = await readDatabaseIdentity(core.db);
    const found = await findLineage(core.db);
    const { lineage, syncs } = found;
    if (lineage && isSame(lineage, identity) && restoreReasonOf(found, identity, seen) === null) {
      const reason = heldElsewhere(lineage, seen);
      seen = { epoch: lineage.epoch, syncs };
      return reason;
    }
    const { reason, elsewhere, state } = await core.db.transaction(async (tx) =>
      settle(tx, core, { identity, seen }),
    );
    seen = state;
    if (reason !== null)
      core.log.error(
        { reason },
        "the database was restored from a backup: all access that it grants is held (docs/backup.md)",
      );
    return reason ?? elsewhere;
  };
};

/** Returns why another core has held the access since this core's last check; null if none has. */
const heldElsewhere = (
  lineage: FoundLineage | undefined,
  seen: LineageState | null,
): RestoreReason | null =>
  lineage !== undefined && seen !== null && lineage.epoch > seen.epoch
    ? (lineage.reason as RestoreReason | null)
    : null;

/** Holds all access because an operator of the machine reports a restore. Returns the number of people. */
export const holdAccess = async (core: RestoreCore): Promise<number> => {
  const identity = await readDatabaseIdentity(core.db);
  const { people } = await core.db.transaction((tx) =>
    settle(tx, core, { identity, seen: null, reason: "operator" }),
  );
  return people;
};

/** Decides again under the lock of pushes and syncs, and stores the identity. */
const settle = async (
  tx: Executor,
  core: RestoreCore,
  {
    identity,
    seen,
    reason: known,
  }: { identity: DatabaseIdentity; seen: LineageState | null; reason?: RestoreReason },
): Promise<{
  reason: RestoreReason | null;
  elsewhere: RestoreReason | null;
  state: LineageState;
  people: number;
}> => {
  await lockDirectorySync(tx);
  const found = await findLineage(tx);
  const { lineage } = found;
  const reason = known ?? restoreReasonOf(found, identity, seen);
  const now = new Date(core.clock.now());
  const epoch = Math.max(lineage?.epoch ?? 0, seen?.epoch ?? 0) + (reason === null ? 0 : 1);
  const restored =
    reason === null
      ? { restoredAt: lineage?.restoredAt ?? null, reason: lineage?.reason ?? null }
      : { restoredAt: now, reason };
  await saveLineage(tx, { ...identity, ...restored, epoch });
  const people = reason === null ? [] : await holdAllAccess(tx, now);
  if (reason !== null)
    await auditRestore(tx, core, {
      reason,
      people,
      rolloutIds: await pauseRestoredRollouts(tx, now),
    });
  const state = { epoch, syncs: (await findLineage(tx)).syncs };
  return { reason, elsewhere: heldElsewhere(lineage, seen), state, people: people.length };
};

const auditRestore = (
  tx: Executor,
  core: RestoreCore,
  {
    reason,
    people,
    rolloutIds,
  }: {
    reason: RestoreReason;
    people: Awaited<ReturnType<typeof holdAllAccess>>;
    rolloutIds: readonly string[];
  },
) => {
  const by = { actor: coreActor, outcome: "success" } as const;
  const hold: AuditEntry = {
    ...by,
    action: "directory.hold",
    reasonCode: reason,
    target: { type: "directory", id: core.config.directory.domain },
    details: { held: people.length, ...peopleOf(people) },
  };
  const paused = rolloutIds.map(
    (id): AuditEntry => ({
      ...by,
      action: "rollout.pause",
      reasonCode: "database_restored",
      target: { type: "rollout", id },
    }),
  );
  return recordAudits(tx, core, [hold, ...paused]);
};
