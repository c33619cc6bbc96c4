import type { WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  type IdentityRow,
  lockIdentity,
  notifyHosts,
  spreadOf,
} from "#functions/store/certificate/identities.ts";
import {
  type AssignmentRow,
  type ConfigRow,
  endAssignment,
  findConfig,
  findLastKnownGoodHash,
  findNewestConfigByHash,
  findOpenAssignment,
  findPreviousConfigId,
  hostsById,
  insertAssignment,
} from "#functions/store/config/configs.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";
import { refuseUnknowing } from "./unknown-keys.ts";

/** The config assigned to an identity, and the one before it. */
export interface Assigned {
  assignment: AssignmentRow;
  config: Pick<ConfigRow, "id" | "configHash">;
  previousConfigId: string | null;
}

/**
 * Assigns a config to an identity; idempotent. Throws 404 `not_found` for either; 409 `conflict` for a revoked identity, or if
 * `expectedCurrentConfigId` is given (null: none) and another config is assigned; 422 `config_kind_mismatch` or
 * `config_key_unknown`.
 */
export const assignConfig = async (
  core: WriteCore,
  by: By,
  change: { identityId: string; configId: string; expectedCurrentConfigId?: string | null },
): Promise<Assigned> =>
  core.db.transaction(async (tx) => {
    const config = await existingConfig(tx, change.configId);
    const identity = requireFound(await lockIdentity(tx, change.identityId), "identity");
    if (change.expectedCurrentConfigId !== undefined) {
      const current = (await findOpenAssignment(tx, identity.id))?.configId ?? null;
      if (current !== change.expectedCurrentConfigId) {
        const detail = "Another config is assigned than the request expects";
        throw new Problem("conflict", { detail, extensions: { current_config_id: current } });
      }
    }
    await refuseUnknowing(config, hostsById(tx, [identity.id]));
    const assigned = await assignLocked(tx, core, by, { identity, config });
    await notifyAssigned(tx, [assigned]);
    return assigned;
  });

/** The outcome for one identity of a bulk assignment. */
interface BulkResult {
  identityId: string;
  outcome: "assigned" | "unchanged" | "not_found" | "revoked";
}

/**
 * Assigns a config to many identities in one transaction. Returns a result for each, in order. Throws 404 `not_found` for the config, and
 * 422 `config_kind_mismatch` or `config_key_unknown` for all of them if one host cannot run it.
 */
export const assignConfigToMany = async (
  core: WriteCore,
  by: By,
  { configId, identityIds }: { configId: string; identityIds: readonly string[] },
): Promise<BulkResult[]> =>
  core.db.transaction(async (tx) => {
    const config = await existingConfig(tx, configId);
    await refuseUnknowing(config, hostsById(tx, identityIds));
    const assigned: Assigned[] = [];
    const results = await lockEach(tx, identityIds, async (identityId, identity) => {
      const result = (outcome: BulkResult["outcome"]) => ({ identityId, outcome });
      if (identity === undefined) return result("not_found");
      if (identity.revokedAt !== null) return result("revoked");
      const assignment = await assignLocked(tx, core, by, { identity, config });
      assigned.push(assignment);
      return result(assignment.previousConfigId === configId ? "unchanged" : "assigned");
    });
    await notifyAssigned(tx, assigned);
    return results;
  });

/** Locks identities in the order of their ids, so that two calls cannot deadlock. Returns the results in the order of `identityIds`. */
const lockEach = async <Result>(
  tx: Executor,
  identityIds: readonly string[],
  run: (identityId: string, identity: IdentityRow | undefined) => Promise<Result>,
): Promise<Result[]> => {
  const results = new Map<string, Result>();
  for (const identityId of [...new Set(identityIds)].sort())
    results.set(identityId, await run(identityId, await lockIdentity(tx, identityId)));
  return identityIds.flatMap((identityId) => results.get(identityId) ?? []);
};

/** Removes the assignment of an identity; idempotent. Throws 404 `not_found`. */
export const clearConfig = async (
  core: WriteCore,
  by: By,
  { identityId }: { identityId: string },
): Promise<void> =>
  core.db.transaction(async (tx) => {
    const identity = requireFound(await lockIdentity(tx, identityId));
    const open = await findOpenAssignment(tx, identityId);
    if (open === undefined) return;
    await endAssignment(tx, identityId, new Date(core.clock.now()));
    await notifyHosts(tx, { action: "config_assigned", identityIds: [identityId], spreadMs: 0 });
    await recordOperatorAction(tx, core, by, {
      action: "config.clear",
      target: { type: "collector_identity", id: identityId },
      details: { identity: identity.identity, previous_config_id: open.configId },
    });
  });

/**
 * Assigns the newest stored config that has the last known good hash of the identity's newest heartbeat. Throws 404 `not_found`; 409
 * `no_last_known_good`, `last_known_good_not_stored`, or `conflict` for a revoked identity.
 */
export const rollBackConfig = async (
  core: WriteCore,
  by: By,
  { identityId, reasonCode }: { identityId: string; reasonCode: string | null },
): Promise<Assigned> =>
  core.db.transaction(async (tx) => {
    const identity = requireFound(await lockIdentity(tx, identityId));
    const config = await lastKnownGood(tx, identityId);
    if (typeof config === "string") throw new Problem(config);
    const assigned = await assignLocked(tx, core, by, {
      identity,
      config,
      rollback: { reasonCode },
    });
    await notifyAssigned(tx, [assigned]);
    return assigned;
  });

const existingConfig = async (tx: Executor, id: string): Promise<ConfigRow> =>
  requireFound(await findConfig(tx, id), "config");

/** Notifies the hosts whose assignment has changed, in few notifications. */
export const notifyAssigned = async (tx: Executor, assigned: readonly Assigned[]) => {
  const changed = assigned.filter(({ config, previousConfigId }) => previousConfigId !== config.id);
  const identityIds = changed.map(({ assignment }) => assignment.identityId);
  await notifyHosts(tx, {
    action: "config_assigned",
    identityIds,
    spreadMs: spreadOf(identityIds.length),
  });
};

/**
 * Assigns a config to an identity that the transaction has locked; the caller must call `notifyAssigned`. Throws 409 `conflict` for a
 * revoked one.
 */
export const assignLocked = async (
  tx: Executor,
  core: WriteCore,
  by: By,
  change: {
    identity: IdentityRow;
    config: ConfigRow;
    rollback?: { reasonCode: string | null };
  },
): Promise<Assigned> => {
  const { identity, config, rollback } = change;
  if (identity.revokedAt !== null)
    throw new Problem("conflict", { detail: "The identity is revoked" });
  const open = await findOpenAssignment(tx, identity.id);
  if (open?.configId === config.id)
    return { assignment: open, config, previousConfigId: config.id };
  const at = new Date(core.clock.now());
  await endAssignment(tx, identity.id, at);
  const assignment: AssignmentRow = {
    id: uuidv7(core),
    identityId: identity.id,
    configId: config.id,
    assignedAt: at,
    assignedBy: by.caller.userId,
    endedAt: null,
  };
  await insertAssignment(tx, assignment);
  await recordOperatorAction(tx, core, by, {
    action: rollback ? "config.rollback" : "config.assign",
    target: { type: "collector_identity", id: identity.id },
    reasonCode: rollback?.reasonCode ?? null,
    details: {
      identity: identity.identity,
      config_id: config.id,
      config_hash: config.configHash,
      previous_config_id: open?.configId ?? null,
    },
  });
  return { assignment, config, previousConfigId: open?.configId ?? null };
};

/** The config to restore: the one that the host last reported as good, or the one that was desired before. */
export const rollbackTargets = ["last_known_good", "previous"] as const;

/** One of `rollbackTargets`. */
type RollbackTarget = (typeof rollbackTargets)[number];

/** The outcomes of a rollback for one host. */
export const rollbackOutcomes = [
  "rolled_back",
  "unchanged",
  "not_found",
  "revoked",
  "no_last_known_good",
  "last_known_good_not_stored",
  "no_previous_config",
] as const;

/** The outcome for one host, and the config that it has or would have; null for a host that does not change. */
interface RollbackResult {
  identityId: string;
  outcome: (typeof rollbackOutcomes)[number];
  config: Pick<ConfigRow, "id" | "name" | "configHash"> | null;
}

/**
 * Rolls many hosts back in one transaction, each to its own config. Returns a result for each, in order. A dry run returns the same
 * results and changes nothing.
 */
export const rollBackMany = async (
  core: WriteCore,
  by: By,
  change: {
    identityIds: readonly string[];
    to: RollbackTarget;
    reasonCode: string | null;
    dryRun: boolean;
  },
): Promise<RollbackResult[]> =>
  core.db.transaction(async (tx) => {
    const assigned: Assigned[] = [];
    const results = await lockEach(tx, change.identityIds, async (identityId, identity) => {
      const { outcome, config } = await decide(tx, identity, change.to);
      const isChanging = outcome === "rolled_back" && !change.dryRun;
      if (identity !== undefined && config !== null && isChanging)
        assigned.push(await assignLocked(tx, core, by, { identity, config, rollback: change }));
      return { identityId, outcome, config };
    });
    await notifyAssigned(tx, assigned);
    return results;
  });

type Decided = Pick<RollbackResult, "outcome"> & { config: ConfigRow | null };

const decide = async (
  tx: Executor,
  identity: IdentityRow | undefined,
  to: RollbackTarget,
): Promise<Decided> => {
  const refused = (outcome: Decided["outcome"]): Decided => ({ outcome, config: null });
  if (identity === undefined) return refused("not_found");
  if (identity.revokedAt !== null) return refused("revoked");
  const open = await findOpenAssignment(tx, identity.id);
  const target =
    to === "previous"
      ? await previousConfig(tx, identity.id, open)
      : await lastKnownGood(tx, identity.id);
  if (typeof target === "string") return refused(target);
  return { outcome: target.id === open?.configId ? "unchanged" : "rolled_back", config: target };
};

const previousConfig = async (
  tx: Executor,
  identityId: string,
  open: AssignmentRow | undefined,
) => {
  const id = await findPreviousConfigId(tx, identityId, open?.configId ?? null);
  return (id === undefined ? undefined : await findConfig(tx, id)) ?? "no_previous_config";
};

const lastKnownGood = async (tx: Executor, identityId: string) => {
  const hash = await findLastKnownGoodHash(tx, identityId);
  if (hash === null) return "no_last_known_good";
  return (await findNewestConfigByHash(tx, hash)) ?? "last_known_good_not_stored";
};
