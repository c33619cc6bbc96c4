import type { HostComparison } from "../../../proto/fleet-health/comparison.ts";
import type { Executor } from "../../store/database/database.ts";
import type { CountingRules } from "../../store/fleet/rows.ts";
import { deleteComparedHosts, findComparedHosts } from "../../store/rollout/compared-hosts.ts";
import type { WaveRow } from "../../store/rollout/rollouts.ts";
import { compareFollowed, unchangedMatches } from "../fleet/compare-followed.ts";

/** Compares the hosts of a wave that has soaked with unchanged ones, once. Null if no host was chosen when it started. */
export const compareWave = async (
  tx: Executor,
  { rolloutId, number, startedAt }: WaveRow,
  rules: CountingRules,
): Promise<HostComparison | null> => {
  const wave = { rolloutId, wave: number };
  const hosts =
    startedAt === null ? [] : await findComparedHosts(tx, { ...wave, startedAt }, rules);
  await deleteComparedHosts(tx, wave);
  if (hosts.every(({ isControl }) => isControl)) return null;
  return compareFollowed(hosts, unchangedMatches, rules.now);
};
