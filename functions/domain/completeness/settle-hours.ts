/*
 * Settles the states of hosts' hours. Invariants:
 * - Each hour is decided once for every host when its grace period is over, in order and without a gap, even if nothing arrived.
 * - It is decided again after a late account, a delivery, a rejection or a loss of its records, the loss of an account, or the end of a
 *   queue.
 * - It is not decided again once its accounts may have been deleted.
 * - The counts of `completeness_hour` are the sums of the rows: both change in one transaction.
 */
import type { Core, ReadCore } from "#functions/core.ts";
import {
  addHourCounts,
  claimSettling,
  type DayRow,
  dayAt,
  deleteOldDays,
  findDays,
  findDeliveredHours,
  findOpenHours,
  releaseSettling,
  type SettlingProgress,
  saveDays,
} from "#functions/store/completeness/days.ts";
import {
  belowAll,
  deleteOldAccounts,
  type HostHour,
  hourKey,
  hoursOf,
  listHosts,
  listUnenrolledHosts,
} from "#functions/store/completeness/hour-facts.ts";
import {
  findChangedAccounts,
  findLateAccounts,
} from "#functions/store/completeness/settled-hours.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { deleteOldQueues, endAbandonedQueues } from "#functions/store/ingest/queues.ts";
import { findRetentionPause } from "#functions/store/retention/retention-pause.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { graceMs } from "#proto/completeness/decide-hour.ts";
import { clockSkewMs } from "#proto/completeness/hour-accounts.ts";
import { type HourNote, packNotes, unpackNotes } from "#proto/completeness/hour-note.ts";
import {
  byteOfState,
  hourStates,
  incompleteStates,
  stateOfByte,
} from "#proto/completeness/hour-state.ts";
import { resumeAt, slowestExport } from "./changed-hours.ts";
import {
  type DecidedHour,
  type HourRules,
  readHourRules,
  readHourStatuses,
} from "./report-completeness.ts";

/** The result of a call. */
interface SettlingReport {
  /** The hour that was decided for the first time. */
  hour?: string;
  hosts?: number;
  /** Earlier hours that were decided again. */
  again?: number;
}

/** Hosts, or hours, that are read and stored together. */
const pageHosts = 1_000;
/** The most hours that a call decides again after late accounts, and after deliveries. */
const againMax = 20_000;
/** An account of a host that slept is followed back this far. */
const followedMs = 400 * dayMs;
/** Accounts are kept for so long after their hour, because a host's clock may be ahead. */
const marginMs = 2 * dayMs;

/** Settles the next hour that is due, and earlier ones that changed, unless another core does so; undefined if nothing was due. */
export const settleHours = async (
  core: ReadCore,
  { owner, retentionDays }: { owner: string; retentionDays: number },
): Promise<SettlingReport | undefined> => {
  const { db } = core;
  // After a jump of the clock it is not known which hours are over.
  if ((await findRetentionPause(db)) !== null) return undefined;
  const before = await claimSettling(db, owner);
  if (before === null) return undefined;
  let progress = before;
  try {
    const rules = await readHourRules(core);
    const keptFromMs = accountsKeptFrom(core.config, rules.nowMs);
    const lostBefore = new Date(rules.nowMs - core.config.queueLostAfterDays * dayMs);
    await endAbandonedQueues(db, { lostBefore, now: new Date(rules.nowMs) });
    const again = await settleAgain(core, rules, { ...before, keptFromMs });
    const { hours: settledAgain, ...reached } = again;
    progress = { ...before, ...reached };
    const newest = Math.floor((rules.nowMs - graceMs) / hourMs) * hourMs - hourMs;
    const hourStartMs = before.hourStartMs === null ? newest : before.hourStartMs + hourMs;
    const report: SettlingReport = settledAgain === 0 ? {} : { again: settledAgain };
    if (hourStartMs <= newest) {
      report.hosts = await settleHour(core, rules, { owner, hourStartMs });
      report.hour = new Date(hourStartMs).toISOString();
      progress = { ...progress, hourStartMs };
      await deleteOldDays(db, new Date(rules.nowMs - retentionDays * dayMs));
      if (keptFromMs !== null) {
        await deleteOldAccounts(db, new Date(keptFromMs - marginMs));
        await deleteOldQueues(db, new Date(keptFromMs - marginMs));
      }
    }
    return Object.keys(report).length === 0 ? undefined : report;
  } finally {
    await releaseSettling(db, owner, progress);
  }
};

/** Accounts are kept as long as the telemetry that they cover; null: forever. */
const accountsKeptFrom = ({ ingest }: Core["config"], nowMs: number) =>
  ingest === null || ingest.retentionDays === 0 ? null : nowMs - ingest.retentionDays * dayMs;

const settleHour = async (
  core: ReadCore,
  rules: HourRules,
  { owner, hourStartMs }: { owner: string; hourStartMs: number },
) => {
  const { db } = core;
  const settle = async (hosts: readonly string[]) => {
    const days = { from: dayAt(hourStartMs) - 1, to: dayAt(hourStartMs) };
    const open = await findOpenHours(db, hosts, days);
    const own = hosts.map((host) => ({ host, hourStartMs }));
    await decide(core, rules, [...own, ...open.filter((hour) => hour.hourStartMs !== hourStartMs)]);
    if ((await claimSettling(db, owner)) === null)
      throw new Error("another core settles the hours");
  };
  const unenrolled = await listUnenrolledHosts(db, hourStartMs);
  for (let at = 0; at < unenrolled.length; at += pageHosts)
    await settle(unenrolled.slice(at, at + pageHosts));
  let settled = unenrolled.length;
  for (let after: string | undefined = ""; after !== undefined; ) {
    const hosts: string[] = await listHosts(db, { after, limit: pageHosts });
    if (hosts.length > 0) await settle(hosts);
    settled += hosts.length;
    after = hosts.at(-1);
  }
  return settled;
};

/**
 * Decides again on hours with late accounts, hours that every export has delivered since, and hours with records that a backend has
 * rejected or core has lost.
 */
const settleAgain = async (
  core: ReadCore,
  rules: HourRules,
  { hourStartMs, receivedBefore, keptFromMs }: SettlingProgress & { keptFromMs: number | null },
): Promise<Omit<SettlingProgress, "hourStartMs"> & { hours: number }> => {
  const now = new Date(rules.nowMs);
  if (hourStartMs === null || receivedBefore === null) return { hours: 0, receivedBefore: now };
  const endMs = hourStartMs + hourMs;
  const limits = { hour: new Date(endMs), limit: againMax };
  const since = receivedBefore;
  const received = { since, unseenFrom: belowAll, until: new Date(rules.nowMs + clockSkewMs) };
  const late = await findLateAccounts(core.db, { ...limits, ...received });
  const slowest = slowestExport(rules.exports);
  const delivered = slowest === null ? [] : await findDeliveredHours(core.db, slowest, pageHosts);
  const changed = await findChangedAccounts(core.db, { ...limits, since });
  const ofAccounts = [...late, ...changed].flatMap((account) =>
    hoursOf(account, { fromMs: endMs - followedMs, untilMs: endMs }),
  );
  // Core may no longer have every account of an older hour.
  const whole = [...delivered, ...ofAccounts].filter(
    (hour) => keptFromMs === null || hour.hourStartMs >= keptFromMs,
  );
  const hours = [...new Map(whole.map((hour) => [hourKey(hour), hour])).values()];
  for (let at = 0; at < hours.length; at += pageHosts)
    await decide(core, rules, hours.slice(at, at + pageHosts));
  const next = Math.min(
    ...[late, changed].map((found) => resumeAt(found, againMax)?.receivedMs ?? rules.nowMs),
  );
  return { hours: hours.length, receivedBefore: new Date(next) };
};

const decide = async (core: ReadCore, rules: HourRules, hours: readonly HostHour[]) => {
  const decided = await readHourStatuses(core, rules, hours);
  await core.db.transaction((tx) => storeHours(tx, decided));
};

/** Stores decided hours in the rows of the days, and changes the counts of the hours accordingly. */
export const storeHours = async (tx: Executor, decided: readonly DecidedHour[]) => {
  const known = decided.filter(({ status }) => status !== null);
  if (known.length === 0) return;
  const days = known.map(({ hourStartMs }) => dayAt(hourStartMs));
  const range = { from: Math.min(...days), to: Math.max(...days) };
  const stored = await findDays(tx, [...new Set(known.map(({ host }) => host))], range);
  const keyOf = ({ host, day }: Pick<DayRow, "host" | "day">) => `${day} ${host}`;
  const rows = new Map(stored.map((row) => [keyOf(row), row]));
  const changes = new Map<number, number[]>();
  const changed = new Map<string, DayRow>();
  for (const [key, hoursOfDay] of Map.groupBy(known, ({ host, hourStartMs }) =>
    keyOf({ host, day: dayAt(hourStartMs) }),
  )) {
    const [{ host, hourStartMs }] = hoursOfDay as [DecidedHour];
    const row = rows.get(key) ?? emptyDay(host, dayAt(hourStartMs));
    const next = withHours(row, hoursOfDay);
    next.states.forEach((byte, hour) => {
      const was = row.states[hour] ?? 0;
      if (was === byte) return;
      const at = row.day * dayMs + hour * hourMs;
      const counts = changes.get(at) ?? hourStates.map(() => 0);
      if (was > 0) counts[was - 1] = (counts[was - 1] ?? 0) - 1;
      counts[byte - 1] = (counts[byte - 1] ?? 0) + 1;
      changes.set(at, counts);
    });
    changed.set(key, next);
  }
  await saveDays(tx, [...changed.values()]);
  await addHourCounts(tx, changes);
};

const emptyDay = (host: string, day: number): DayRow => ({
  host,
  day,
  states: new Uint8Array(24),
  details: null,
  incompleteHours: 0,
  undelivered: 0,
  xid: null,
});

const withHours = (row: DayRow, hours: readonly DecidedHour[]): DayRow => {
  // A copy: the driver's `Buffer.slice` is a view.
  const states = new Uint8Array(row.states);
  const notes: Map<number, HourNote> = unpackNotes(row.details);
  let { undelivered, xid } = row;
  for (const { hourStartMs, status, sums } of hours) {
    if (status === null) continue;
    const hour = (hourStartMs % dayMs) / hourMs;
    states[hour] = byteOfState(status.state);
    notes.delete(hour);
    if (status.state === "short")
      notes.set(hour, {
        accepted: sums.accepted,
        stored: sums.stored,
        shortages: status.shortages,
      });
    undelivered =
      status.state === "undelivered" ? undelivered | (1 << hour) : undelivered & ~(1 << hour);
    const isWaiting = status.state === "undelivered";
    if (isWaiting && sums.xid !== null && (xid === null || sums.xid > xid)) xid = sums.xid;
  }
  const isIncomplete = (byte: number) => incompleteStates.includes(stateOfByte(byte) ?? "complete");
  return {
    ...row,
    states,
    undelivered,
    details: packNotes(notes),
    xid: undelivered === 0 ? null : xid,
    incompleteHours: states.filter(isIncomplete).length,
  };
};
