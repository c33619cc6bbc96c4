import type { ReadCore } from "#functions/core.ts";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import {
  type FleetSample,
  findHistoryStart,
  findOutagesBetween,
  findSamples,
  sampleMs,
} from "#functions/store/fleet/history.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { type TimelineSpan, timelineSteps } from "#proto/fleet-health/timeline.ts";

/** The counts of the whole fleet over a time, and when no core could receive. */
interface FleetTimeline {
  from: Date;
  to: Date;
  /** From when views of the past are possible; null before history begins. */
  historyFrom: Date | null;
  samples: FleetSample[];
  outages: Pick<Outage, "beganAt" | "endedAt">[];
}

/** Returns the counts of a span that ends now. */
export const reportTimeline = async (
  { db, clock, config }: ReadCore,
  span: TimelineSpan,
): Promise<FleetTimeline> => {
  const to = new Date(clock.now());
  const { hours, stepMinutes } = timelineSteps[span];
  const range = { from: new Date(to.getTime() - hours * hourMs), to };
  const keptFrom = to.getTime() - config.stateRetentionDays * dayMs;
  const [samples, outages, start] = await Promise.all([
    findSamples(db, { ...range, stepMs: Math.max(sampleMs, stepMinutes * 60_000) }),
    findOutagesBetween(db, range),
    findHistoryStart(db),
  ]);
  return {
    ...range,
    samples,
    outages,
    historyFrom: start && new Date(Math.max(start.getTime(), keptFrom)),
  };
};
