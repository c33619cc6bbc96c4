import { type HostHour, hourKey } from "#functions/store/completeness/hour-facts.ts";
import { findFirstHour, type StatementRow } from "#functions/store/completeness/log.ts";
import {
  findChangedAccounts,
  findDeliveredAccounts,
  findDeliveredInStream,
  findLateAccounts,
  type SettlingAccount,
} from "#functions/store/completeness/settled-hours.ts";
import type { Database } from "#functions/store/database/database.ts";
import { hourMs as hourLengthMs } from "#kit/clock.ts";
import { compareHosts } from "#proto/completeness/statement-line.ts";
import type { HourRules } from "./hour-statuses.ts";
import { deliveryColumns, slowestExport, streamDelivery } from "./stream-delivery.ts";

/** Hours whose state changed after their statement, and how far this has followed accounts. */
interface SettledHours {
  /** Sorted by host and hour. */
  hours: HostHour[];
  receivedBefore: Date;
  deliveredBelow: bigint | null;
  deliveredStream: string | null;
  deliveredThrough: bigint | null;
}

/** Hours that a statement corrects at most; the next one goes on where it stopped. */
const hoursMax = 100_000;

/** Finds the hours before `hour` whose accounts came, were delivered, rejected by a backend or lost by a stream, since the last statement. */
export const findSettledHours = async (
  db: Database,
  { hour, last, rules }: { hour: number; last: StatementRow | undefined; rules: HourRules },
): Promise<SettledHours> => {
  const now = new Date(rules.nowMs);
  const slowest = slowestExport(rules.exports);
  const streamed = streamDelivery(rules.exports, last);
  const first = await findFirstHour(db);
  const nothing = {
    ...deliveryColumns(streamed),
    hours: [],
    receivedBefore: now,
    deliveredBelow: slowest,
  };
  if (last === undefined || first === undefined) return nothing;
  const settled = new Map<string, HostHour>();
  const range = { fromMs: first.getTime(), untilMs: hour };
  const add = (accounts: readonly SettlingAccount[]): SettlingAccount | undefined => {
    for (const account of accounts) {
      if (settled.size >= hoursMax) return account;
      for (const one of hoursOf(account, range)) settled.set(hourKey(one), one);
    }
    return undefined;
  };
  const query = { hour: new Date(hour), limit: hoursMax };
  const { receivedBefore: since, seenBelow: unseenFrom } = last;
  const late = await findLateAccounts(db, { ...query, since, unseenFrom, until: now });
  const leftLate = add(late) ?? (late.length === hoursMax ? late.at(-1) : undefined);
  const from = last.deliveredBelow ?? slowest;
  const delivered =
    from !== null && slowest !== null && slowest > from
      ? await findDeliveredAccounts(db, { ...query, from, below: slowest })
      : [];
  const leftDelivered =
    add(delivered) ?? (delivered.length === hoursMax ? delivered.at(-1) : undefined);
  const inStream =
    streamed === null ? [] : await findDeliveredInStream(db, { ...query, ...streamed });
  const leftInStream =
    add(inStream) ?? (inStream.length === hoursMax ? inStream.at(-1) : undefined);
  const changed = await findChangedAccounts(db, { ...query, since });
  const leftChanged = add(changed) ?? (changed.length === hoursMax ? changed.at(-1) : undefined);
  const receivedBefore = Math.min(
    ...[leftLate, leftChanged].map((left) => left?.receivedMs ?? rules.nowMs),
  );
  return {
    ...deliveryColumns(streamed, leftInStream),
    hours: [...settled.values()].sort(
      (a, b) => compareHosts(a.host, b.host) || a.hourMs - b.hourMs,
    ),
    receivedBefore: new Date(receivedBefore),
    deliveredBelow:
      leftDelivered?.xid ?? (from !== null && slowest !== null && slowest < from ? from : slowest),
  };
};

/** Returns the hours of a range that an account touches. */
export const hoursOf = (
  { host, fromMs, toMs, isStopped }: SettlingAccount,
  range: { fromMs: number; untilMs: number },
): HostHour[] => {
  const own = Math.floor(fromMs / hourLengthMs) * hourLengthMs;
  const end = Math.min(range.untilMs, isStopped ? toMs : own + hourLengthMs);
  const hours: HostHour[] = [];
  for (let hourMs = Math.max(own, range.fromMs); hourMs < end; hourMs += hourLengthMs)
    hours.push({ host, hourMs });
  return hours;
};
