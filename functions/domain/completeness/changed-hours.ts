import { type HostHour, hourKey, hoursOf } from "#functions/store/completeness/hour-facts.ts";
import { findFirstHour, type StatementRow } from "#functions/store/completeness/log.ts";
import {
  findChangedAccounts,
  findDeliveredAccounts,
  findLateAccounts,
  type SettlingAccount,
} from "#functions/store/completeness/settled-hours.ts";
import type { Database } from "#functions/store/database/database.ts";
import { lowest } from "#kit/bigint.ts";
import { compareHosts } from "#proto/completeness/statement-line.ts";
import type { HourRules } from "./report-completeness.ts";

/** Hours whose state changed after their statement, and how far accounts have been followed. */
interface ChangedHours {
  /** Sorted by host and hour. */
  hours: HostHour[];
  receivedBefore: Date;
  deliveredBelow: bigint | null;
}

/** Hours that a statement corrects at most; the next statement resumes where it stopped. */
const hoursMax = 100_000;

/** Returns the position of the slowest export; null without one. */
export const slowestExport = (exports: HourRules["exports"]): bigint | null =>
  exports.length === 0 ? null : exports.map(({ position }) => position).reduce(lowest);

/** Finds the hours before `hour` whose accounts were received, delivered, rejected or lost since the last statement. */
export const findChangedHours = async (
  db: Database,
  { hour, last, rules }: { hour: number; last: StatementRow | undefined; rules: HourRules },
): Promise<ChangedHours> => {
  const now = new Date(rules.nowMs);
  const slowest = slowestExport(rules.exports);
  const firstHour = await findFirstHour(db);
  if (last === undefined || firstHour === undefined)
    return { hours: [], receivedBefore: now, deliveredBelow: slowest };
  const changed = createHourSet({ fromMs: firstHour.getTime(), untilMs: hour });
  const query = { hour: new Date(hour), limit: hoursMax };
  const { receivedBefore: since, seenBelow: unseenFrom } = last;
  const nextLate = changed.add(
    await findLateAccounts(db, { ...query, since, unseenFrom, until: now }),
  );
  const from = last.deliveredBelow ?? slowest;
  const hasAdvanced = from !== null && slowest !== null && slowest > from;
  const delivered = hasAdvanced
    ? await findDeliveredAccounts(db, { ...query, from, below: slowest })
    : [];
  const nextDelivered = changed.add(delivered);
  const nextChanged = changed.add(await findChangedAccounts(db, { ...query, since }));
  const receivedBefore = Math.min(
    ...[nextLate, nextChanged].map((next) => next?.receivedMs ?? rules.nowMs),
  );
  return {
    hours: changed.sorted(),
    receivedBefore: new Date(receivedBefore),
    // Never goes back, although a new export may begin further behind.
    deliveredBelow: nextDelivered?.xid ?? (slowest === null || hasAdvanced ? slowest : from),
  };
};

/** Collects the hours of accounts, each once, until it has `hoursMax`. */
const createHourSet = (range: { fromMs: number; untilMs: number }) => {
  const hours = new Map<string, HostHour>();
  return {
    /** Adds the hours of one query's accounts. Returns the account at which the next statement resumes the query. */
    add(accounts: readonly SettlingAccount[]): SettlingAccount | undefined {
      for (const account of accounts) {
        if (hours.size >= hoursMax) return account;
        for (const hour of hoursOf(account, range)) hours.set(hourKey(hour), hour);
      }
      return resumeAt(accounts, hoursMax);
    },
    sorted: (): HostHour[] =>
      [...hours.values()].sort(
        (a, b) => compareHosts(a.host, b.host) || a.hourStartMs - b.hourStartMs,
      ),
  };
};

/** Returns the account at which a query with this limit must resume; undefined if it returned everything. */
export const resumeAt = (
  accounts: readonly SettlingAccount[],
  limit: number,
): SettlingAccount | undefined => (accounts.length === limit ? accounts.at(-1) : undefined);
