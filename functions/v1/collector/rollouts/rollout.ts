import type { Rollout, RolloutTarget, RolloutWave } from "../../../../proto/rollout/rollout.ts";
import { rolloutReasons, type TargetStatus } from "../../../../proto/rollout/vocabulary.ts";
import type { Outage } from "../../../store/fleet/counted-time.ts";
import type { DescribedRollout, DescribedWave } from "../../../store/rollout/rollouts.ts";
import type { TargetListRow } from "../../../store/rollout/targets.ts";
import { outagesView } from "../outages.ts";

const timestamp = (at: Date | null): string | null => at?.toISOString() ?? null;

/** Returns the view of a rollout, with the outages of core if they are known. */
export const rolloutView = (row: DescribedRollout & { outages?: readonly Outage[] }): Rollout => {
  const sum = (count: "targets" | "revertedFailed" | TargetStatus) =>
    row.waves.reduce((all, wave) => all + wave[count], 0);
  const code = rolloutReasons.find((each) => each === row.reasonCode);
  return {
    id: row.id,
    config: { id: row.configId, name: row.configName, config_hash: row.configHash },
    filter: row.filter,
    state: row.state,
    reason: code === undefined ? null : { code, detail: row.reason },
    wave: row.wave,
    waves: row.waves.map(waveView),
    gate: {
      max_failed_percent: row.maxFailedPercent,
      states: row.conditions,
      worse_than_control: row.stopsIfWorse,
    },
    on_breach: row.onBreach,
    targets: sum("targets"),
    pending: sum("pending"),
    assigned: sum("assigned"),
    applied: sum("applied"),
    failed: sum("failed"),
    skipped: sum("skipped"),
    reverted: sum("reverted"),
    reverted_failed: sum("revertedFailed"),
    created_by: row.createdBy,
    created_by_name: row.createdByName,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
    ended_at: timestamp(row.endedAt),
    breach: row.breach && {
      wave: row.breach.wave,
      failed: row.breach.failed,
      failed_percent: row.breach.failedPercent,
      at: row.breach.at,
      evidence: row.breach.evidence.map((each) => ({
        identity_id: each.identityId,
        identity: each.identity,
        condition: each.condition,
        began_at: each.beganAt,
        detail: each.detail,
      })),
    },
    ...outagesView(row.outages ?? []),
  };
};

const waveView = (row: DescribedWave): RolloutWave => ({
  number: row.number,
  percent: row.percent,
  count: row.count,
  soak_seconds: row.soakSeconds,
  targets: row.targets,
  pending: row.pending,
  assigned: row.assigned,
  applied: row.applied,
  failed: row.failed,
  skipped: row.skipped,
  reverted: row.reverted,
  reverted_failed: row.revertedFailed,
  started_at: timestamp(row.startedAt),
  soak_until: timestamp(row.soakUntil),
  completed_at: timestamp(row.completedAt),
  ...(row.comparison === null ? {} : { comparison: row.comparison }),
});

/** Returns the view of a target. */
export const targetView = (row: TargetListRow): RolloutTarget => ({
  identity_id: row.identityId,
  identity: row.identity,
  device_id: row.deviceId,
  wave: row.wave,
  status: row.status,
  reason: row.reason,
  previous_config_id: row.previousConfigId,
  assigned_at: timestamp(row.assignedAt),
  applied_at: timestamp(row.appliedAt),
  failed_at: timestamp(row.failedAt),
  condition: row.condition,
  condition_began_at: timestamp(row.conditionBeganAt),
  detail: row.conditionDetail,
  reverted_at: timestamp(row.revertedAt),
});
