import type { TimedCore } from "#functions/core.ts";
import { foldHours, refreshHostVolumes } from "#functions/store/volume/fold.ts";
import { hourMs } from "#kit/clock.ts";

/**
 * Creates the tick that keeps what hosts sent, once an hour: hours become days, and what a host sends is compared with its usual day. Safe to
 * repeat, by any number of cores.
 */
export const createVolumeKeeper = ({ db, clock }: TimedCore) => {
  let refreshed: number | undefined;
  return async (): Promise<{ folded_hosts: number } | undefined> => {
    const now = clock.now();
    const hour = now - (now % hourMs);
    if (hour === refreshed) return undefined;
    const folded = await foldHours(db, now);
    await refreshHostVolumes(db, now, { withUsual: folded > 0 || refreshed === undefined });
    refreshed = hour;
    return folded === 0 ? undefined : { folded_hosts: folded };
  };
};
