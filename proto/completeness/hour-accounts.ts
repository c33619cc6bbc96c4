/** What the accounts of a host say of an hour together. */
import { hourMs, minuteMs } from "#kit/clock.ts";
import type { RuleCounts, SourceRefusal, StatedLosses } from "./account.ts";

/** What the backend of an export rejected for good: records, and items of records that it accepted otherwise. */
export interface ExportRejection {
  name: string;
  records: number;
  items: number;
}

/** How far an export is: it has delivered what is below its position. */
export interface ExportPlace {
  position: bigint;
}

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

/** The losses of an account that states none. */
export const noLosses: StatedLosses = {
  refused: {},
  expired: 0,
  damaged: 0,
  fileGapBytes: 0,
  fileGaps: 0,
  filtered: 0,
  redacted: 0,
  rules: new Map(),
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
  /** Where its range is stored: `postgres`, or `nats` by an earlier version. */
  sink: string;
  /** In PostgreSQL its place in the order of commits: an export whose position is above has delivered its range. */
  xid: bigint;
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
}

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
  ...noLosses,
  refused: {},
  rules: new Map(),
  exportRejections: [],
  faults: [],
  isChecked: true,
  clockAheadMs: 0,
  sinks: [],
  xid: null,
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
  const { accepted, sink, xid, toMs, receivedMs } = account;
  sum.accounts += 1;
  sum.clockAheadMs = Math.max(sum.clockAheadMs, toMs - receivedMs);
  if (accepted > 0 && !sum.sinks.includes(sink)) sum.sinks.push(sink);
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

/** Reports whether an export has delivered an hour's records. It knows nothing of those in another sink. */
export const hasDelivered = (
  { sinks, xid }: Pick<HourAccounts, "sinks" | "xid">,
  { position }: ExportPlace,
): boolean => sinks.every((sink) => sink === "postgres") && (xid === null || position > xid);

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
