import { Problem } from "#functions/problems.ts";
import { countedAfter, type Outage } from "#functions/store/fleet/counted-time.ts";
import type { WaveRow } from "#functions/store/rollout/rollouts.ts";
import type { WaveBody } from "#proto/rollout/rollout.ts";

/** Returns how far a wave reaches: the number of `targets` that the rollout has reached with it. */
const reachOf = (wave: WaveBody, targets: number) =>
  "count" in wave ? Math.min(wave.count, targets) : Math.ceil((targets * wave.percent) / 100);

/**
 * Returns how far each wave reaches among `targets`, rising. Throws 422 `rollout_waves_invalid` if a wave does not reach further than one
 * before it of the same kind, or the last one not all targets.
 */
export const wavesReach = (waves: readonly WaveBody[], targets: number): number[] => {
  let percent = 0;
  let count = 0;
  let reach = 0;
  const reaches = waves.map((wave, index) => {
    const isRising = "count" in wave ? wave.count > count : wave.percent > percent;
    if (!isRising) throw invalid(index, "must reach further than the waves before it");
    if ("count" in wave) ({ count } = wave);
    else ({ percent } = wave);
    reach = Math.max(reach, reachOf(wave, targets));
    return reach;
  });
  if (reach < targets)
    throw invalid(
      waves.length - 1,
      `must reach all ${targets} hosts: end with {"percent": 100, …}`,
    );
  return reaches;
};

const invalid = (index: number, message: string): Problem =>
  new Problem("rollout_waves_invalid", { errors: [{ path: `waves.${index}`, message }] });

/** Returns when a soak ends that is planned until `planned`; infinitely late during an outage of core, in which nothing shows that a host fails. */
export const soakEnd = (
  { soakSeconds }: Pick<WaveRow, "soakSeconds">,
  planned: Date,
  outages: readonly Outage[],
) =>
  Math.max(
    planned.getTime(),
    countedAfter(planned.getTime() - soakSeconds * 1000, soakSeconds, outages),
  );
