import { viewOf } from "#functions/http/route.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import type { DescribedRollout, TargetListRow } from "#functions/store/rollout/rollouts.ts";
import { Rollout, RolloutTarget } from "#proto/rollout/rollout.ts";
import { rolloutReasons, targetStatuses } from "#proto/rollout/vocabulary.ts";
import { outagesView } from "../outages.ts";

const rolloutOf = viewOf(Rollout);
const targetOf = viewOf(RolloutTarget);

const counted = ["targets", "revertedFailed", ...targetStatuses] as const;

/** Returns the view of a rollout, with the outages of core if they are known. */
export const rolloutView = (row: DescribedRollout & { outages?: readonly Outage[] }): Rollout => {
  const sums = counted.map(
    (count) => [count, row.waves.reduce((sum, wave) => sum + wave[count], 0)] as const,
  );
  const code = rolloutReasons.find((each) => each === row.reasonCode);
  return rolloutOf({
    ...row,
    ...(Object.fromEntries(sums) as Record<(typeof counted)[number], number>),
    config: { id: row.configId, name: row.configName, configHash: row.configHash },
    reason: code === undefined ? null : { code, detail: row.reason },
    waves: row.waves.map((wave) => ({ ...wave, comparison: wave.comparison ?? undefined })),
    gate: {
      maxFailedPercent: row.maxFailedPercent,
      states: row.conditions,
      worseThanControl: row.stopsIfWorse,
    },
    outages: outagesView(row.outages ?? []).outages,
  });
};

/** Returns the view of a target. */
export const targetView = (row: TargetListRow): RolloutTarget =>
  targetOf({ ...row, detail: row.conditionDetail });
