/** The states of a host's hour, what an hour may be short of, and how queues end: the words of API, statements and page. */
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

/** Counts the records that an hour lacks. Ignores unknown numbers, and shortages in other units. */
export const shortRecords = (
  shortages: readonly { kind: string; count: number | null }[],
): number =>
  shortages.reduce(
    (sum, { kind, count }) => (recordShortages.includes(kind) ? sum + (count ?? 0) : sum),
    0,
  );

/** Records, for `file_gap` bytes, and for `export_rejected_items` spans, log records and data points; null where nobody can say how much. */
export interface Shortage {
  kind: (typeof shortageKinds)[number];
  count: number | null;
  /** Why core refuses an account. */
  reason?: string;
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
