/** Decides on the state of a host's hour, for API, statements and page. */
import { hourMs, minuteMs } from "#kit/clock.ts";
import {
  clockSkewMs,
  type ExportPlace,
  type HourAccounts,
  hasDelivered,
  isCovered,
  sumRejections,
  toleranceMs,
} from "./hour-accounts.ts";
import {
  abruptEndings,
  type HourState,
  type QueueFacts,
  type Shortage,
  shortageKinds,
} from "./hour-state.ts";

/** What decides on the state of a host's hour. */
export interface HourFacts {
  /** The start of the hour, UTC. */
  hourStartMs: number;
  accounts: HourAccounts;
  /** The queues of the host that core knows of. */
  queues: readonly QueueFacts[];
  enrolledMs: number | null;
  revokedMs: number | null;
  /** The host does not speak (`stale`). */
  isSilent: boolean;
  /** When core could not receive, and hosts had not had the time to come back; infinite for one that lasts. */
  outages: readonly { fromMs: number; untilMs: number }[];
  /** The exports that are on. */
  exports: readonly ExportPlace[];
}

/** A queue that binds a time of an hour, in milliseconds since the Unix epoch. */
export interface BindingQueue extends Pick<QueueFacts, "queueId"> {
  fromMs: number;
  toMs: number;
}

/** The state of an hour, and what explains it. */
export interface HourStatus {
  state: HourState;
  /** Empty unless the state is `short`. */
  shortages: Shortage[];
  /** The queues that must be accounted for. */
  binding: BindingQueue[];
  /** The host's clock is ahead of core's by more than two minutes. */
  isClockWrong: boolean;
}

/** How long after an hour its account may come before it is late. */
export const graceMs = 15 * minuteMs;

/**
 * Decides on the state of an hour at `nowMs`; null if it is not over, its account is not due, or the host was not enrolled then. It is complete if
 * a queue binds it, each queue that does is accounted for through its end, and all that was accepted is stored.
 */
export const stateOfHour = (facts: HourFacts, nowMs: number): HourStatus | null => {
  const { hourStartMs: startMs, accounts, queues } = facts;
  const endMs = startMs + hourMs;
  if (nowMs < endMs || !isEnrolled(facts)) return null;
  const binding = queues.filter(
    (queue) => queue.fromMs < endMs && (queue.endMs ?? endMs) > startMs,
  );
  const statuses = new Set(binding.map((queue) => statusOfQueue(queue, facts)));
  const shortages = shortagesOfHour(accounts, statuses);
  const state =
    shortages.length > 0
      ? "short"
      : stateWithoutShortage(facts, statuses, nowMs >= endMs + graceMs);
  return (
    state && {
      state,
      shortages,
      binding: binding.map((queue) => bindingOf(queue, startMs)),
      isClockWrong: accounts.clockAheadMs > clockSkewMs,
    }
  );
};

const isEnrolled = ({ hourStartMs: startMs, enrolledMs, revokedMs }: HourFacts) =>
  (enrolledMs === null || enrolledMs < startMs + hourMs) &&
  (revokedMs === null || revokedMs > startMs);

/** Whether a queue is accounted for through an hour, or why not. */
type QueueStatus = "accounted" | "pending" | "unknown" | "accounts_lost" | "not_accounted";

const bindingOf = ({ queueId, fromMs, endMs }: QueueFacts, startMs: number): BindingQueue => ({
  queueId,
  fromMs: Math.max(startMs, fromMs),
  toMs: Math.min(startMs + hourMs, endMs ?? Number.POSITIVE_INFINITY),
});

const statusOfQueue = (
  queue: QueueFacts,
  { hourStartMs: startMs, accounts, queues }: HourFacts,
): QueueStatus => {
  const { fromMs, toMs } = bindingOf(queue, startMs);
  const isAbrupt = abruptEndings.some((ending) => ending === queue.ending);
  // In however short a time behind its last account it may have accepted more.
  const throughMs = isAbrupt && toMs === queue.endMs ? toMs + toleranceMs : toMs;
  if (isCovered(accounts, queue.queueId, { fromMs, toMs: throughMs })) return "accounted";
  if (!queue.sendsAccounts && queues.every(({ accountedThroughMs }) => accountedThroughMs === null))
    return "not_accounted";
  // Accounts come in their order: what is missing before a later one, or a successor's, does not come any more.
  if (queue.accountedThroughMs !== null && queue.accountedThroughMs >= toMs) return "accounts_lost";
  if (queue.endMs === null) return "pending";
  return isAbrupt ? "unknown" : "accounts_lost";
};

/** Returns what an hour is short of, by its accounts and by the queues that bind it. */
const shortagesOfHour = (
  accounts: HourAccounts,
  statuses: ReadonlySet<QueueStatus>,
): Shortage[] => {
  const shortages = shortagesOf(accounts);
  // An account that core refuses is not lost.
  if (statuses.has("accounts_lost") && accounts.faults.length === 0)
    shortages.push({ kind: "accounts_lost", count: null });
  // A queue whose account is to come may lack more, and what core has not counted.
  const isOpen = statuses.has("pending") || isUncounted(accounts);
  const mayLackMore = shortages.length > 0 && accounts.faults.length === 0 && isOpen;
  if (statuses.has("unknown") || mayLackMore) shortages.push({ kind: "unknown", count: null });
  return shortages;
};

/** Returns what the accounts of an hour are short of. */
const shortagesOf = (sums: HourAccounts): Shortage[] => {
  const { faults, refused, rejected, lost, missing, fileGapBytes, fileGaps, exportRejections } =
    sums;
  const shortages: Shortage[] = faults.map((reason) => ({
    kind: "account_refused",
    count: null,
    reason,
  }));
  const counted = {
    dropped: (refused.queue_full ?? 0) + (refused.too_large ?? 0),
    rejected,
    lost_in_restore: lost,
    missing,
    file_gap: fileGapBytes,
    ...sumRejections(exportRejections),
  };
  for (const kind of shortageKinds) {
    const count = kind in counted ? counted[kind as keyof typeof counted] : 0;
    if (count > 0) shortages.push({ kind, count });
    else if (kind === "file_gap" && fileGaps > 0) shortages.push({ kind, count: null });
  }
  return shortages;
};

/** Reports whether core knows of less than was accepted what became of it. */
const isUncounted = ({
  isChecked,
  accepted,
  stored,
  rejected,
  discarded,
  lost,
  missing,
}: HourAccounts) => !isChecked && stored + rejected + discarded + lost + missing < accepted;

/** Returns the state of an hour that is short of nothing; null if its account is to come, and not due yet. */
const stateWithoutShortage = (
  { hourStartMs: startMs, accounts, queues, outages, exports, isSilent }: HourFacts,
  statuses: ReadonlySet<QueueStatus>,
  isDue: boolean,
): HourState | null => {
  if (statuses.has("pending")) {
    if (!isDue) return null;
    const dueMs = startMs + hourMs + graceMs;
    if (outages.some(({ fromMs, untilMs }) => fromMs < dueMs && untilMs > startMs))
      return "core_out";
    return isSilent ? "silent" : "late";
  }
  if (statuses.size === 0 || statuses.has("not_accounted")) {
    if (!isDue) return null;
    return queues.some(({ ending }) => ending === "ended") ? "not_running" : "not_accounted";
  }
  if (accounts.ranMs === 0 && accounts.accepted === 0) return "not_running";
  if (!accounts.isChecked) return "not_accounted";
  const isDelivered = exports.length > 0 && exports.every((one) => hasDelivered(accounts, one));
  return accounts.accepted === 0 || isDelivered ? "complete" : "undelivered";
};
