import { Problem } from "#functions/problems.ts";
import { findFollowedHosts, hostsOfFilter, keptHours } from "#functions/store/fleet/host-hours.ts";
import { hourMs } from "#kit/clock.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import type { HostComparison } from "#proto/fleet-health/comparison.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { compareFollowed } from "./compare-followed.ts";
import { readFleetRules, type ViewCore } from "./rules.ts";

/** A change: the hosts of a filter, and when it began. */
interface Change {
  filter: FleetFilter;
  since: Date;
}

/**
 * Creates the function that compares the hosts of a filter with others since a time, for upgrades and other changes without a rollout.
 * Concurrent calls with one change share a result. Throws 422 `no_history` for a time that is not past, or too long ago.
 */
export const createComparisons = (core: ViewCore) =>
  shareNextRun(
    async ({ filter, since }: Change): Promise<HostComparison> => {
      const ageMs = core.clock.now() - since.getTime();
      if (ageMs < 0) throw new Problem("no_history", { detail: "The time is not past" });
      if (ageMs > (keptHours - 1) * hourMs)
        throw new Problem("no_history", {
          detail: `The figures of hosts are kept for ${keptHours} hours`,
        });
      const rules = await readFleetRules(core);
      const hosts = await findFollowedHosts(
        core.db,
        hostsOfFilter(filter, rules),
        { from: since, until: since },
        rules,
      );
      // Hosts of one version or label are compared with those of another, so these are no keys.
      const matches = [
        ["platform", "version", "labels"],
        ["platform", "labels"],
        ["platform", "version"],
        ["platform"],
      ] as const;
      return compareFollowed(hosts, matches, rules.now);
    },
    (change) => JSON.stringify(change),
    core.viewsShared,
  );
