import type { Core } from "#functions/core.ts";
import { notifyHosts, spreadOf } from "#functions/store/certificate/identities.ts";
import {
  type AssignmentRow,
  type ConfigRow,
  findConfigHashes,
} from "#functions/store/config/configs.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { RolloutRow } from "#functions/store/rollout/rollouts.ts";
import {
  endAssignments,
  insertAssignments,
  type LockedTarget,
  lockTargets,
  type TargetChange,
  updateTargets,
} from "#functions/store/rollout/rollouts.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { type Actor, type AuditEntry, recordAudits } from "../audit/audit-log.ts";

type Needs = Pick<Core, "clock" | "entropy">;

/** The actor of automatic steps of a rollout. */
export const rolloutActor: Actor = { type: "system", id: "rollouts", display: "rollout" };

/** Hosts per transaction: enough to share its cost, few enough that their heartbeats do not wait for it. */
const batchMax = 200;

/** The new status of one target, and its new assignment. */
interface Decision {
  target: LockedTarget;
  change: TargetChange;
  /** The config to assign; null for none. Absent: the host's desired config does not change. */
  configId?: string | null;
}

const skipped = (target: LockedTarget, reason: NonNullable<TargetChange["reason"]>): Decision => ({
  target,
  change: { ...target, status: "skipped", reason },
});

/**
 * Assigns the config to the next targets of a wave, and records the previous one of each. Skips revoked hosts and those that do not apply
 * core's configs. Hosts fetch it over a time for `hosts` of them. Returns how many targets it changed: 0 when the wave is assigned.
 */
export const assignNext = async (
  tx: Executor,
  needs: Needs,
  row: RolloutRow,
  { config, hosts }: { config: ConfigRow; hosts: number },
): Promise<number> => {
  const wanted = { rolloutId: row.id, statuses: ["pending"] as const, wave: row.wave };
  const targets = await lockTargets(tx, wanted, batchMax);
  const decisions = targets.map((target): Decision => {
    if (target.isRevoked) return skipped(target, "revoked");
    if (target.applies === false) return skipped(target, "apply_desired_config_off");
    const previousConfigId = target.openConfigId;
    const change = { ...target, status: "assigned", reason: null, previousConfigId } as const;
    return previousConfigId === config.id
      ? { target, change: { ...change, assignmentId: target.openAssignmentId } }
      : { target, change, configId: config.id };
  });
  await applyDecisions(tx, needs, row, { decisions, hosts });
  return decisions.length;
};

/**
 * Assigns the previous configs to the next targets. Skips a host whose desired config somebody else has changed, and a revoked one. Returns
 * how many targets it changed: 0 when all are reverted.
 */
export const revertNext = async (
  tx: Executor,
  needs: Needs,
  row: RolloutRow,
  { hosts }: { hosts: number },
): Promise<number> => {
  const wanted = { rolloutId: row.id, statuses: ["assigned", "applied", "failed"] as const };
  const targets = await lockTargets(tx, wanted, batchMax);
  const decisions = targets.map((target): Decision => {
    if (target.isRevoked) return skipped(target, "revoked");
    if (target.openAssignmentId !== target.assignmentId) return skipped(target, "reassigned");
    const change = { ...target, status: "reverted", reason: null } as const;
    return target.previousConfigId === target.openConfigId
      ? { target, change }
      : { target, change, configId: target.previousConfigId };
  });
  await applyDecisions(tx, needs, row, { decisions, hosts });
  return decisions.length;
};

const applyDecisions = async (
  tx: Executor,
  needs: Needs,
  row: RolloutRow,
  { decisions, hosts }: { decisions: readonly Decision[]; hosts: number },
) => {
  if (decisions.length === 0) return;
  const at = new Date(needs.clock.now());
  const changed = decisions.filter(({ configId }) => configId !== undefined);
  const made = changed.flatMap(({ target, configId }): AssignmentRow[] =>
    configId == null
      ? []
      : [
          {
            id: uuidv7(needs),
            identityId: target.identityId,
            configId,
            assignedAt: at,
            assignedBy: row.createdBy,
            endedAt: null,
          },
        ],
  );
  const madeFor = new Map(made.map((assignment) => [assignment.identityId, assignment.id]));
  const identityIds = changed.map(({ target }) => target.identityId);
  await endAssignments(tx, identityIds, at);
  await insertAssignments(tx, made);
  await notifyHosts(tx, { action: "config_assigned", identityIds, spreadMs: spreadOf(hosts) });
  const changes = decisions.map(({ target, change }) => ({
    ...change,
    assignmentId: madeFor.get(target.identityId) ?? change.assignmentId,
  }));
  await updateTargets(tx, row.id, changes, at);
  const hashes = await findConfigHashes(
    tx,
    made.map(({ configId }) => configId),
  );
  await recordAudits(
    tx,
    needs,
    changed.map(({ target, configId = null }): AuditEntry => {
      const previous = { previous_config_id: target.openConfigId, rollout_id: row.id };
      return {
        actor: rolloutActor,
        action: configId === null ? "config.clear" : "config.assign",
        target: { type: "collector_identity", id: target.identityId },
        outcome: "success",
        details:
          configId === null
            ? { identity: target.identity, ...previous }
            : {
                identity: target.identity,
                config_id: configId,
                config_hash: hashes.get(configId) ?? null,
                ...previous,
              },
      };
    }),
  );
};
