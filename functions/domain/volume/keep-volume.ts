import type { TimedCore } from "#functions/core.ts";
import { foldHours, refreshHostVolumes } from "#functions/store/volume/fold.ts";
import { hourMs } from "#kit/clock.ts";

/**
 * Creates a tick that once an hour moves old hours into days and refreshes the volumes of hosts. The next tick repeats one that failed or
 * found another core at work. Any number of cores may run it.
 */
export const createVolumeKeeper = ({ db, clock }: TimedCore) => {
  let refreshedHour: number | undefined;
  let isUsualCurrent = false;
  return async (): Promise<{ folded_hosts: number } | undefined> => {
    const now = clock.now();
    const hour = now - (now % hourMs);
    if (hour === refreshedHour) return undefined;
    const wasUsualCurrent = isUsualCurrent;
    // If the refresh fails, the next tick finds nothing to fold, and the usual volumes are still due.
    isUsualCurrent = false;
    const folded = await foldHours(db, now);
    const withUsual = folded > 0 || !wasUsualCurrent;
    if (await refreshHostVolumes(db, now, { withUsual })) {
      isUsualCurrent = true;
      refreshedHour = hour;
    }
    return folded === 0 ? undefined : { folded_hosts: folded };
  };
};
