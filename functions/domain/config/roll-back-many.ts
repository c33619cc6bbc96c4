import type { WriteCore } from "#functions/core.ts";
import { type IdentityRow, lockIdentity } from "#functions/store/certificate/identities.ts";
import {
  type AssignmentRow,
  type ConfigRow,
  findConfig,
  findLastKnownGoodHash,
  findNewestConfigByHash,
  findOpenAssignment,
  findPreviousConfigId,
} from "#functions/store/config/configs.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { Origin } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import { type Assigned, assignLocked, notifyAssigned } from "./desired-config.ts";

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
  operator: Operator,
  change: {
    identityIds: readonly string[];
    to: RollbackTarget;
    reasonCode: string | null;
    dryRun: boolean;
  },
  origin: Origin,
): Promise<RollbackResult[]> =>
  core.db.transaction(async (tx) => {
    const results = new Map<string, RollbackResult>();
    const assigned: Assigned[] = [];
    // In the order of ids, so that two rollbacks cannot deadlock.
    for (const identityId of [...new Set(change.identityIds)].sort()) {
      const identity = await lockIdentity(tx, identityId);
      const decided = await decide(tx, identity, change.to);
      if (
        identity !== undefined &&
        decided.outcome === "rolled_back" &&
        decided.config !== null &&
        !change.dryRun
      ) {
        const { config } = decided;
        assigned.push(
          await assignLocked(tx, core, { operator, identity, config, origin, rollback: change }),
        );
      }
      results.set(identityId, { identityId, ...decided });
    }
    await notifyAssigned(tx, assigned);
    return change.identityIds.map(
      (identityId) => results.get(identityId) ?? { identityId, outcome: "not_found", config: null },
    );
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
  const found =
    to === "previous"
      ? await previousConfig(tx, identity.id, open)
      : await lastKnownGood(tx, identity.id);
  if (typeof found === "string") return refused(found);
  return { outcome: found.id === open?.configId ? "unchanged" : "rolled_back", config: found };
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
