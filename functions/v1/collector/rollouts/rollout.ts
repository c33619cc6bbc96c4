import { viewOf } from "#functions/http/route.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import type {
  DescribedRollout,
  DescribedWave,
  TargetListRow,
} from "#functions/store/rollout/rollouts.ts";
import {
  Rollout,
  RolloutBreach,
  RolloutEvidence,
  RolloutTarget,
  RolloutWave,
} from "#proto/rollout/rollout.ts";
import { rolloutReasons, targetStatuses } from "#proto/rollout/vocabulary.ts";
import { outagesView } from "../outages.ts";

const rolloutOf = viewOf(Rollout);
const waveOf = viewOf(RolloutWave);
const breachOf = viewOf(RolloutBreach);
const evidenceOf = viewOf(RolloutEvidence);
const targetOf = viewOf(RolloutTarget);

const counted = ["targets", "revertedFailed", ...targetStatuses] as const;

/** Returns the view of a rollout, with the outages of core if they are known. */
export const rolloutView = (row: DescribedRollout & { outages?: readonly Outage[] }): Rollout => {
  const { breach, outages = [] } = row;
  const sums = counted.map(
    (count) => [count, row.waves.reduce((sum, wave) => sum + wave[count], 0)] as const,
  );
  const code = rolloutReasons.find((each) => each === row.reasonCode);
  return rolloutOf({
    ...row,
    ...(Object.fromEntries(sums) as Record<(typeof counted)[number], number>),
    config: { id: row.configId, name: row.configName, config_hash: row.configHash },
    reason: code === undefined ? null : { code, detail: row.reason },
    waves: row.waves.map(waveView),
    gate: {
      max_failed_percent: row.maxFailedPercent,
      states: row.conditions,
      worse_than_control: row.stopsIfWorse,
    },
    breach: breach && breachOf({ ...breach, evidence: breach.evidence.map(evidenceOf) }),
    outages: outagesView(outages).outages,
  });
};

const waveView = (row: DescribedWave): RolloutWave =>
  waveOf({ ...row, comparison: row.comparison ?? undefined });

/** Returns the view of a target. */
export const targetView = (row: TargetListRow): RolloutTarget =>
  targetOf({ ...row, detail: row.conditionDetail });
