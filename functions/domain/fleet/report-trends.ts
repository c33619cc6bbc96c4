import type { ReadCore } from "#functions/core.ts";
import { findHourCounts } from "#functions/store/completeness/report.ts";
import { type FleetSample, findHistoryStart, findSamples } from "#functions/store/fleet/history.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { countIncomplete } from "#proto/completeness/hour-state.ts";
import { trendSteps } from "#proto/fleet-health/trends.ts";
import { type FleetState, fleetStates } from "#proto/fleet-health/vocabulary.ts";

type Points = (number | null)[];

/** Figures of the whole fleet in each step of the last 24 hours (`trendSteps`), the last of which is not over; null where nobody counted. */
export interface FleetTrendPoints {
  until: Date;
  sampledAt: (Date | null)[];
  needsAttention: Points;
  forwarding: Points;
  byState: Record<FleetState, Points>;
  incomplete: Points;
}

/** Returns the trends of the whole fleet. */
export const reportTrends = async ({ db, clock, config }: ReadCore): Promise<FleetTrendPoints> => {
  const stepMs = trendSteps.stepSeconds * 1000;
  const now = clock.now();
  const untilMs = Math.floor(now / stepMs) * stepMs + stepMs;
  const fromMs = untilMs - trendSteps.count * stepMs;
  const [samples, hours, start] = await Promise.all([
    findSamples(db, { from: new Date(fromMs), to: new Date(now), stepMs }),
    findHourCounts(db, { fromMs: fromMs - hourMs, toMs: untilMs }),
    findHistoryStart(db),
  ]);
  const historyMs = Math.max(start?.getTime() ?? now, now - config.stateRetentionDays * dayMs);
  const sampled = new Map(
    samples.map((each) => [Math.floor((each.at.getTime() - fromMs) / stepMs), each]),
  );
  const settled = new Map(hours.map((each) => [each.hourStartMs, each.hosts]));
  const steps = Array.from({ length: trendSteps.count }, (_, index) => index);
  const pointsOf = (read: (sample: FleetSample) => number | null) =>
    steps.map((index) => {
      const sample = sampled.get(index);
      return sample ? read(sample) : null;
    });
  return {
    until: new Date(untilMs),
    sampledAt: steps.map((index) => {
      const at = sampled.get(index)?.at;
      return at && at.getTime() >= historyMs ? at : null;
    }),
    needsAttention: pointsOf(({ needsAttention }) => needsAttention),
    forwarding: pointsOf(({ forwarding }) => forwarding),
    byState: Object.fromEntries(
      fleetStates.map((state) => [state, pointsOf(({ byState }) => byState.get(state) ?? 0)]),
    ) as Record<FleetState, Points>,
    incomplete: steps.map((index) => {
      const at = fromMs + index * stepMs;
      const hosts = settled.get(at - (at % hourMs));
      return hosts ? countIncomplete((state) => hosts.get(state)) : null;
    }),
  };
};
