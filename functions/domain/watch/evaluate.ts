/**
 * Decides whether a watch fires. Invariants: its state changes only after the count has contradicted it for the whole time of the watch, in
 * time that counts; a receiver is told that a watch fires at most once before it is told that it has ended; and is told that it has ended if it
 * was told that it fires.
 */
import { type Outage, uncountedSeconds } from "#functions/store/fleet/counted-time.ts";
import type { WatchRow } from "#functions/store/watch/watches.ts";

/** Longer gaps between two evaluations count as this: nobody knows what the count was. */
const gapMsMax = 60_000;

/** How a watch stands. */
export type WatchStatus = Pick<
  WatchRow,
  | "isFiring"
  | "changedAt"
  | "firingSince"
  | "contrarySince"
  | "contraryMs"
  | "announcedCount"
  | "count"
  | "evaluatedAt"
  | "silencedUntil"
>;

/** A count of the hosts of a watch, and when it was taken. */
export interface WatchCount {
  now: Date;
  count: number;
  outages: readonly Outage[];
}

/** What an evaluation changes, and what it records and reports. */
interface WatchDecision {
  change: Partial<WatchStatus>;
  /** The change of state, for the history. */
  event: "firing" | "resolved" | null;
  /** Whether receivers must be told that it fires, or that it has ended. */
  message: "firing" | "resolved" | null;
}

/** Returns the outage of core that explains what is counted at a time: it lasts, or hosts may still be on their way back. */
export const outageAt = (now: Date, outages: readonly Outage[]): Outage | undefined =>
  outages.find(
    ({ beganAt, countedFrom }) => beganAt <= now && (countedFrom === null || now < countedFrom),
  );

/** The status of a watch that was never evaluated. */
export const unevaluated = (now: Date) =>
  ({
    isFiring: false,
    changedAt: now,
    firingSince: null,
    contrarySince: null,
    contraryMs: 0,
    announcedCount: null,
    count: null,
    evaluatedAt: null,
    fault: null,
    commonFactor: null,
    explainedBy: null,
  }) satisfies Partial<WatchRow>;

/**
 * Decides by a count how a watch stands. During an outage of core, and until hosts had the time to come back, it stands as it did before. Time
 * that a clock took back, or skipped, does not count.
 */
export const evaluateWatch = (
  { moreThan, forSeconds, ...status }: WatchStatus & Pick<WatchRow, "moreThan" | "forSeconds">,
  { now, count, outages }: WatchCount,
): WatchDecision => {
  if (outageAt(now, outages) !== undefined)
    return { change: { evaluatedAt: now }, event: null, message: null };
  const isContrary = count > moreThan !== status.isFiring;
  const contrarySince = isContrary ? earlierOf(status.contrarySince ?? now, now) : null;
  const contraryMs =
    isContrary && status.contrarySince ? status.contraryMs + countedMs(status, now, outages) : 0;
  const isChanging = isContrary && contraryMs >= forSeconds * 1000;
  const isFiring = status.isFiring !== isChanging;
  const change = {
    isFiring,
    count,
    evaluatedAt: now,
    ...(isChanging
      ? {
          changedAt: now,
          firingSince: isFiring ? contrarySince : null,
          contrarySince: null,
          contraryMs: 0,
        }
      : { contrarySince, contraryMs }),
  };
  const event = isChanging ? (isFiring ? "firing" : "resolved") : null;
  const isAnnounced = status.announcedCount !== null;
  if (isFiring && !isAnnounced && !isSilenced(status, now))
    return { change: { ...change, announcedCount: count }, event, message: "firing" };
  if (!isFiring && isAnnounced)
    return { change: { ...change, announcedCount: null }, event, message: "resolved" };
  return { change, event, message: null };
};

const earlierOf = (one: Date, other: Date): Date => (one < other ? one : other);

/** Whether an operator has silenced a watch at a time. */
const isSilenced = ({ silencedUntil }: Pick<WatchRow, "silencedUntil">, now: Date) =>
  silencedUntil !== null && now < silencedUntil;

/** Returns a watch without a silence that has ended. */
export const withoutPastSilence = <Row extends WatchRow>(row: Row, now: Date): Row =>
  isSilenced(row, now) ? row : { ...row, silencedUntil: null };

/** The time since the last evaluation that counts. */
const countedMs = ({ evaluatedAt }: WatchStatus, now: Date, outages: readonly Outage[]) => {
  if (evaluatedAt === null || evaluatedAt >= now) return 0;
  const elapsedMs = now.getTime() - evaluatedAt.getTime();
  const uncountedMs = uncountedSeconds(evaluatedAt.getTime(), now.getTime(), outages) * 1000;
  return Math.min(gapMsMax, elapsedMs - uncountedMs);
};
