import { Problem } from "#functions/problems.ts";
import { countedAfter, type Outage } from "#functions/store/fleet/counted-time.ts";
import type { WaveRow } from "#functions/store/rollout/rollouts.ts";
import type { WaveBody } from "#proto/rollout/rollout.ts";

/** Returns the number of `targets` that the rollout reaches with this wave and those before it. */
const reachOf = (wave: WaveBody, targets: number) =>
  "count" in wave ? Math.min(wave.count, targets) : Math.ceil((targets * wave.percent) / 100);

/**
 * Returns the number of `targets` that each wave reaches with those before it, rising. Throws 422 `rollout_waves_invalid` if a wave does
 * not reach more than one before it of the same kind, or the last one not all targets.
 */
export const wavesReach = (waves: readonly WaveBody[], targets: number): number[] => {
  let percent = 0;
  let count = 0;
  let reach = 0;
  const reaches = waves.map((wave, index) => {
    const isRising = "count" in wave ? wave.count > count : wave.percent > percent;
    if (!isRising) throw invalid(index, "must reach further than the waves before it");
    if ("count" in wave) count = wave.count;
    else percent = wave.percent;
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

/** Returns when a soak planned until `planned` ends; infinitely late during an outage of core, in which no failure of a host is seen. */
export const soakEnd = (
  { soakSeconds }: Pick<WaveRow, "soakSeconds">,
  planned: Date,
  outages: readonly Outage[],
) =>
  Math.max(
    planned.getTime(),
    countedAfter(planned.getTime() - soakSeconds * 1000, soakSeconds, outages),
  );
