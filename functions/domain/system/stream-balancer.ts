/** Streams stay on the core that they found: after a rolling restart, or beside a new core, those that have too many let some go (docs/scale.md). */
import type { CoreReport } from "#functions/store/system/system.ts";
import type { Clock } from "#kit/clock.ts";
import { surplusOf, takesStreams } from "./report-system.ts";

/** Fewer than a core can open, and so few that nobody waits. */
const perSecond = 20;
const roundSeconds = 10;
/** Until then streams are open again. */
const settleMs = 2_000;
/** After so many rounds without a gain, a balancer sends hosts back to where they were: it goes on beside a new core, or an hour later. */
const vainRoundsMax = 2;
const vainPauseMs = 3_600_000;

/** The streams of this core. */
interface OwnStreams {
  /** The id of this core's report. */
  id: string;
  count(): number;
  /** Ends so many, whose hosts connect again at once. */
  release(count: number): void;
}

/** Creates a tick that releases streams of this core while it has more than its share, at most 20 a second. */
export const createStreamBalancer = (
  { clock, findReports }: { clock: Clock; findReports(): Promise<readonly CoreReport[]> },
  { id, count, release }: OwnStreams,
) => {
  const known = new Set<string>();
  let vainRounds = 0;
  let vainUntil = 0;

  const releaseSurplus = async (surplus: number, signal: AbortSignal) => {
    const before = count();
    const going = Math.min(surplus, perSecond * roundSeconds);
    for (let left = going; left > 0; left -= perSecond) {
      release(Math.min(left, perSecond));
      await clock.sleep(1_000, signal);
    }
    await clock.sleep(settleMs, signal);
    const isVain = before - count() < going / 10;
    vainRounds = isVain ? vainRounds + 1 : 0;
    vainUntil = clock.monotonic() + vainPauseMs;
    return { let_go: going, streams_before: before, streams_after: count() };
  };

  return async (signal: AbortSignal): Promise<object | undefined> => {
    const now = clock.now();
    const found = await findReports();
    const ready = found.filter((report) => report.id !== id && takesStreams(report, now));
    const added = ready.filter((report) => !known.has(report.id));
    for (const report of added) known.add(report.id);
    if (added.length > 0 || clock.monotonic() >= vainUntil) vainRounds = 0;
    if (ready.length === 0 || vainRounds >= vainRoundsMax) return undefined;
    const surplus = surplusOf(count(), [count(), ...ready.map(({ streams }) => streams ?? 0)]);
    return surplus === 0 ? undefined : releaseSurplus(surplus, signal);
  };
};
