import type { TimedCore } from "#functions/core.ts";
import { requireFound } from "#functions/problems.ts";
import { findHostHours, type HourCount } from "#functions/store/ingest/hours.ts";
import { hourMs } from "#kit/clock.ts";
import { volumeHours } from "#proto/fleet-health/volume.ts";

/** What core stored for a host in an hour, by kind. */
interface VolumeHour {
  /** Milliseconds since the epoch. */
  from: number;
  counts: ReadonlyMap<string, HourCount>;
}

/** Returns what core stored for a host in each of the last hours, oldest first. Throws 404 `not_found`. */
export const reportVolume = async (
  { db, clock }: TimedCore,
  identityId: string,
): Promise<{ now: number; hours: VolumeHour[] }> => {
  const now = clock.now();
  const first = now - (now % hourMs) - (volumeHours - 1) * hourMs;
  const countsOfHours = requireFound(await findHostHours(db, identityId, first), "collector");
  const hours = Array.from({ length: volumeHours }, (_, index) => {
    const from = first + index * hourMs;
    const counts = countsOfHours
      .filter(({ hour }) => hour === from)
      .map((count) => [count.kind, count] as const);
    return { from, counts: new Map(counts) };
  });
  return { now, hours };
};
