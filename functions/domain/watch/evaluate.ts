/**
 * Decides whether a watch fires. Invariants:
 * - Its state changes only after the count has contradicted it for the whole duration of the watch, in time that counts.
 * - A receiver is notified that a watch fires at most once before it is notified that it has ended, and always of the end after that.
 */
import { type Outage, uncountedSeconds } from "#functions/store/fleet/counted-time.ts";
import type { WatchRow } from "#functions/store/watch/watches.ts";

/** Longer gaps between two evaluations count as this, because the count during them is unknown. */
const gapMsMax = 60_000;

/** The status of a watch. */
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

/** The number of hosts of a watch at a time. */
export interface WatchCount {
  now: Date;
  count: number;
  outages: readonly Outage[];
}

/** The changes of an evaluation, and what it records and reports. */
interface WatchDecision {
  change: Partial<WatchStatus>;
  /** The change of state, for the history. */
  event: "firing" | "resolved" | null;
  /** Whether receivers must be notified that it fires, or that it has ended. */
  message: "firing" | "resolved" | null;
}

/** Returns the outage of core that explains a count: it lasts, or hosts may still be reconnecting. */
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
 * Decides on the status of a watch by a count. During an outage of core, and until hosts had time to reconnect, keeps the status. Time that
 * a clock went back by, or skipped, does not count.
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
  const newState = isFiring ? "firing" : "resolved";
  const event = isChanging ? newState : null;
  const isAnnounced = status.announcedCount !== null;
  if (isFiring && !isAnnounced && !isSilenced(status, now))
    return { change: { ...change, announcedCount: count }, event, message: "firing" };
  if (!isFiring && isAnnounced)
    return { change: { ...change, announcedCount: null }, event, message: "resolved" };
  return { change, event, message: null };
};

const earlierOf = (a: Date, b: Date): Date => (a < b ? a : b);

/** Reports whether an operator has silenced a watch at a time. */
const isSilenced = ({ silencedUntil }: Pick<WatchRow, "silencedUntil">, now: Date) =>
  silencedUntil !== null && now < silencedUntil;

/** Returns a watch without a silence that has ended. */
export const withoutPastSilence = <Row extends WatchRow>(row: Row, now: Date): Row =>
  isSilenced(row, now) ? row : { ...row, silencedUntil: null };

/** The counted time since the last evaluation. */
const countedMs = ({ evaluatedAt }: WatchStatus, now: Date, outages: readonly Outage[]) => {
  if (evaluatedAt === null || evaluatedAt >= now) return 0;
  const elapsedMs = now.getTime() - evaluatedAt.getTime();
  const uncountedMs = uncountedSeconds(evaluatedAt.getTime(), now.getTime(), outages) * 1000;
  return Math.min(gapMsMax, elapsedMs - uncountedMs);
};
