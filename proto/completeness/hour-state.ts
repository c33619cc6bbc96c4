/** The state of a host's hour: its only definition, for API, statements and page. */
import { hourMs, minuteMs } from "#kit/clock.ts";
import type { RuleCounts, SourceRefusal, StatedLosses } from "./account.ts";

/** The states, in the words of the API. `undelivered`: complete, and not yet with every export. */
export const hourStates = [
  "complete",
  "undelivered",
  "short",
  "late",
  "silent",
  "not_running",
  "core_out",
  "not_accounted",
] as const;

/** One of `hourStates`. */
export type HourState = (typeof hourStates)[number];

/** The states of hours that somebody should look at. */
export const incompleteStates: readonly HourState[] = ["short", "late", "silent", "core_out"];

/** Returns how many of an hour's hosts have an incomplete one, by the number of hosts in each state. */
export const countIncomplete = (hostsIn: (state: HourState) => number | undefined): number =>
  incompleteStates.reduce((sum, state) => sum + (hostsIn(state) ?? 0), 0);

/** The states that change when the hour's account arrives or is lost. */
export const pendingStates: readonly HourState[] = ["late", "silent", "core_out"];

/** Returns the state that a byte of a day's row names; null for 0, an hour that is not decided. */
export const stateOfByte = (byte: number | undefined): HourState | null =>
  hourStates[(byte ?? 0) - 1] ?? null;

/** Returns the byte of a state in a day's row. */
export const byteOfState = (state: HourState): number => hourStates.indexOf(state) + 1;

/**
 * What an hour is short of. `dropped`: at the source, by a full queue or for their size; `missing`: accepted and never received; `unknown`: a queue
 * ended without an account of what it had accepted.
 */
export const shortageKinds = [
  "account_refused",
  "accounts_lost",
  "dropped",
  "rejected",
  "lost_in_restore",
  "missing",
  "file_gap",
  "export_rejected",
  "export_rejected_items",
  "unknown",
] as const;

const otherUnits: readonly string[] = ["file_gap", "export_rejected_items"];

/** The kinds that count records: others count bytes of files, and spans or points of records that were delivered otherwise. */
export const recordShortages: readonly string[] = shortageKinds.filter(
  (kind) => !otherUnits.includes(kind),
);

/** Records, for `file_gap` bytes, and for `export_rejected_items` spans, log records and data points; null where nobody can say how much. */
export interface Shortage {
  kind: (typeof shortageKinds)[number];
  count: number | null;
  /** Why core refuses an account. */
  reason?: string;
}

/** What the backend of an export rejected for good: records, and items of records that it accepted otherwise. */
export interface ExportRejection {
  name: string;
  records: number;
  items: number;
}

/** A sequence of a stream, which is named with the time of its creation. */
export interface StreamPlace {
  stream: string;
  sequence: bigint;
}

/** How far an export is: from PostgreSQL it has delivered what is below its position, from a stream what is through it. */
export interface ExportPlace {
  /** Null: PostgreSQL. */
  stream: string | null;
  position: bigint;
}

/**
 * Why a queue binds no further hour. `ended`: its last account says so; `succeeded`: accounts of another id follow its own; `forked`: a copy of it
 * has sent, and core has not seen it for hours; `revoked`: its host was; `closed`: by an admin; `lost`: core has not seen it for days.
 */
export const queueEndings = ["ended", "succeeded", "forked", "revoked", "closed", "lost"] as const;

/** One of `queueEndings`. */
export type QueueEnding = (typeof queueEndings)[number];

/** The endings behind which nobody knows what the queue had accepted since its last account. */
export const abruptEndings: readonly QueueEnding[] = ["forked", "revoked", "closed", "lost"];

/** A queue of a host, which binds its hours; times in milliseconds since the Unix epoch. */
export interface QueueFacts {
  /** In hex; null for one that has all accounts of its host. */
  queueId: string | null;
  /** Where its first account begins, by its host's clock; without one, when core first saw it. */
  fromMs: number;
  /** Null: it is open. */
  endMs: number | null;
  ending: QueueEnding | null;
  /** What its client says; it is taken to send them too where the host has accounts. */
  sendsAccounts: boolean;
  /** When its last account ends that was not ahead of core's clock; null without one. */
  accountedThroughMs: number | null;
}

/** Returns the queue of a host whose queues core does not know by name: all its accounts are of it. */
export const anyQueue = (fromMs: number, accountedThroughMs: number | null): QueueFacts => ({
  queueId: null,
  fromMs,
  endMs: null,
  ending: null,
  sendsAccounts: true,
  accountedThroughMs,
});

const rangeCounts = ["accepted", "stored", "rejected", "discarded", "lost", "missing"] as const;

/** What became of the records of an account. */
type RangeCounts = Record<(typeof rangeCounts)[number], number>;

/** The counts of an account without records. */
export const noneCounted: RangeCounts = {
  accepted: 0,
  stored: 0,
  rejected: 0,
  discarded: 0,
  lost: 0,
  missing: 0,
};

/** An account as core has it; times in milliseconds since the Unix epoch. */
export interface AccountFacts extends RangeCounts {
  /** In hex. */
  queueId: string;
  /** By the host's clock. */
  fromMs: number;
  toMs: number;
  receivedMs: number;
  isStopped: boolean;
  /** Why core refuses it; null for an accepted one. */
  refused: string | null;
  /** Whether core has counted exactly its range. */
  isChecked: boolean;
  /** Where its range is stored: `postgres` or `nats`. */
  sink: string;
  /** In PostgreSQL its place in the order of commits: an export whose position is above has delivered its range. */
  xid: bigint;
  /** In a stream: through where its range is stored. */
  streamEnd: StreamPlace | null;
  exportRejections: readonly ExportRejection[];
  stated: StatedLosses;
}

/** A time that accounts of a queue cover. */
interface CoveredTime {
  queueId: string;
  fromMs: number;
  toMs: number;
}

/** What the accounts of an hour say together. */
export interface HourAccounts extends RangeCounts, StatedLosses {
  accounts: number;
  /** What they cover of the hour, with the time in which no collector ran, in the order of its start. */
  covered: CoveredTime[];
  ranMs: number;
  refused: Partial<Record<SourceRefusal, number>>;
  rules: Map<string, RuleCounts>;
  /** By export. */
  exportRejections: ExportRejection[];
  /** Why core refuses accounts of the hour. */
  faults: string[];
  isChecked: boolean;
  /** How far the host's clock was ahead of core's at most. */
  clockAheadMs: number;
  /** Where the records of its accounts are stored. */
  sinks: string[];
  /** The highest of its accounts in PostgreSQL; null without one. */
  xid: bigint | null;
  /** The highest in each stream. */
  streamEnds: StreamPlace[];
}

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
/** The clocks of a host and of core may differ by so much. */
export const clockSkewMs = 2 * minuteMs;
/** Accounts are cut to whole milliseconds at both ends. */
export const toleranceMs = 1_000;

/** Reports whether accounts of a queue cover a time of their hour without a hole; null: those of any queue. */
export const isCovered = (
  { covered }: Pick<HourAccounts, "covered">,
  queueId: string | null,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): boolean => {
  let throughMs = fromMs;
  for (const each of covered)
    if ((queueId === null || each.queueId === queueId) && each.fromMs <= throughMs + toleranceMs)
      throughMs = Math.max(throughMs, each.toMs);
  return throughMs >= toMs - toleranceMs;
};

const noAccounts = (): HourAccounts => ({
  accounts: 0,
  covered: [],
  ranMs: 0,
  ...noneCounted,
  expired: 0,
  damaged: 0,
  fileGapBytes: 0,
  fileGaps: 0,
  filtered: 0,
  redacted: 0,
  rules: new Map(),
  refused: {},
  exportRejections: [],
  faults: [],
  isChecked: true,
  clockAheadMs: 0,
  sinks: [],
  xid: null,
  streamEnds: [],
});

/** Adds counts to those of their rule. */
export const addRule = (
  rules: Map<string, RuleCounts>,
  rule: string,
  { filtered = 0, redacted = 0 }: Partial<RuleCounts>,
): void => {
  const before = rules.get(rule);
  rules.set(rule, {
    filtered: (before?.filtered ?? 0) + filtered,
    redacted: (before?.redacted ?? 0) + redacted,
  });
};

/** Adds up the accounts of a host that touch the hour that begins at `startMs`. */
export const sumHour = (startMs: number, all: readonly AccountFacts[]): HourAccounts => {
  const sum = noAccounts();
  for (const account of all.toSorted((one, other) => one.fromMs - other.fromMs)) {
    const { fromMs, toMs, isStopped, receivedMs } = account;
    // That it does not run in the time to come is not known yet. What it has accepted in its hour is, whatever its clock says.
    const untilMs = isStopped ? Math.min(toMs, receivedMs + clockSkewMs) : toMs;
    const endMs = Math.min(untilMs, startMs + hourMs);
    const ms = endMs - Math.max(fromMs, startMs);
    const isOwn = Math.floor(fromMs / hourMs) * hourMs === startMs;
    if (account.refused !== null) {
      if (isOwn) sum.faults.push(account.refused);
      continue;
    }
    // One that has lost records says wrongly that no collector ran: its disk went back.
    if (isStopped ? ms <= 0 || account.lost > 0 : !isOwn) continue;
    sum.covered.push({ queueId: account.queueId, fromMs: Math.max(fromMs, startMs), toMs: endMs });
    addPlace(sum, account);
    if (isStopped) continue;
    sum.ranMs += Math.max(0, ms);
    addCounts(sum, account);
  }
  return sum;
};

/** Adds where an account is, and what it says of clocks. */
const addPlace = (sum: HourAccounts, account: AccountFacts) => {
  const { accepted, sink, streamEnd, xid, toMs, receivedMs } = account;
  sum.accounts += 1;
  sum.clockAheadMs = Math.max(sum.clockAheadMs, toMs - receivedMs);
  if (accepted > 0 && !sum.sinks.includes(sink)) sum.sinks.push(sink);
  if (streamEnd && accepted > 0) addEnd(sum.streamEnds, streamEnd);
  if (sink === "postgres" && (sum.xid === null || xid > sum.xid)) sum.xid = xid;
};

const addCounts = (sum: HourAccounts, account: AccountFacts) => {
  sum.isChecked &&= account.isChecked;
  for (const name of rangeCounts) sum[name] += account[name];
  const { refused, rules, ...losses } = account.stated;
  for (const name of Object.keys(losses) as (keyof typeof losses)[]) sum[name] += losses[name];
  for (const [reason, records] of Object.entries(refused) as [SourceRefusal, number][])
    sum.refused[reason] = (sum.refused[reason] ?? 0) + records;
  for (const [rule, counts] of rules) addRule(sum.rules, rule, counts);
  for (const rejection of account.exportRejections) addRejection(sum.exportRejections, rejection);
};

const addEnd = (ends: StreamPlace[], { stream, sequence }: StreamPlace) => {
  const found = ends.find((end) => end.stream === stream);
  if (found === undefined) ends.push({ stream, sequence });
  else if (sequence > found.sequence) found.sequence = sequence;
};

type Stored = Pick<HourAccounts, "sinks" | "xid" | "streamEnds">;

/** Reports whether an export has delivered what it reads of an hour's records; undefined where it reads none of them. */
export const hasDelivered = (
  { sinks, xid, streamEnds }: Stored,
  by: ExportPlace,
): boolean | undefined => {
  const end = streamEnds.find(({ stream }) => stream === by.stream);
  if (by.stream !== null) return end && by.position >= end.sequence;
  return sinks.length === 0 || sinks.includes("postgres")
    ? xid === null || by.position > xid
    : undefined;
};

/** Reports whether all that is stored of an hour is read by exports, and delivered by each of these. */
const isDelivered = (stored: Stored, exports: readonly ExportPlace[]) => {
  const reads = (stream: string | null) => exports.some((one) => one.stream === stream);
  const { sinks, streamEnds } = stored;
  const isStreamRead = streamEnds.length > 0 && streamEnds.every(({ stream }) => reads(stream));
  const isRead = sinks.every((sink) => (sink === "postgres" ? reads(null) : isStreamRead));
  return isRead && exports.every((one) => hasDelivered(stored, one) !== false);
};

const addRejection = (sums: ExportRejection[], { name, records, items }: ExportRejection) => {
  const sum = sums.find((each) => each.name === name);
  if (sum === undefined) sums.push({ name, records, items });
  else Object.assign(sum, { records: sum.records + records, items: sum.items + items });
};

/** Returns what all exports together lack of what core has. */
export const sumRejections = (
  rejections: readonly ExportRejection[],
): Record<"export_rejected" | "export_rejected_items", number> => ({
  export_rejected: rejections.reduce((sum, { records }) => sum + records, 0),
  export_rejected_items: rejections.reduce((sum, { items }) => sum + items, 0),
});

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

const isEnrolled = ({ hourStartMs: startMs, enrolledMs, revokedMs }: HourFacts) =>
  (enrolledMs === null || enrolledMs < startMs + hourMs) &&
  (revokedMs === null || revokedMs > startMs);

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
  return accounts.accepted === 0 || isDelivered(accounts, exports) ? "complete" : "undelivered";
};
