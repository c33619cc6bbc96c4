import type { Core, ReadCore } from "#functions/core.ts";
import { requireFound } from "#functions/problems.ts";
import { type DayRow, dayAt, findDays, findSettling } from "#functions/store/completeness/days.ts";
import {
  findHostAccounts,
  findHostFacts,
  findHourAccounts,
  type HostHour,
  type HourAccount,
  hourKey,
  listExports,
  type NamedExport,
} from "#functions/store/completeness/hour-facts.ts";
import {
  type EnrolledHost,
  type FleetHourCounts,
  findEnrolledHosts,
  findHourCounts,
  findMatchingHosts,
  type HourFilter,
  type HourRange,
  type MatchingHost,
} from "#functions/store/completeness/report.ts";
import { countedBefore } from "#functions/store/fleet/counted-time.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { graceMs, type HourStatus, stateOfHour } from "#proto/completeness/decide-hour.ts";
import {
  type AccountFacts,
  type HourAccounts,
  noLosses,
  sumHour,
  toleranceMs,
} from "#proto/completeness/hour-accounts.ts";
import { type HourNote, unpackNotes } from "#proto/completeness/hour-note.ts";
import {
  type HourState,
  pendingStates,
  type QueueFacts,
  stateOfByte,
} from "#proto/completeness/hour-state.ts";
import { readLosses } from "#proto/completeness/lost-ranges.ts";
import { auditedExport, exportBatchRows, type RequestedExport } from "../audit/audited-export.ts";
import { readCountingRules } from "../fleet/rules.ts";

/** An hour of a host: its settled state, what is missing, and the accounts that core still has. */
export interface ReportedHour {
  hourStartMs: number;
  state: HourState | null;
  note: HourNote | undefined;
  accounts: readonly HourAccount[];
  sums: HourAccounts | null;
}

/** The facts that decide the hours of all hosts. */
export interface HourRules {
  nowMs: number;
  /** Hosts last seen before it are silent. */
  silentBeforeMs: number;
  outages: readonly { fromMs: number; untilMs: number }[];
  exports: readonly NamedExport[];
}

/** Reads what currently decides on the hours of all hosts. */
export const readHourRules = async (core: ReadCore): Promise<HourRules> => {
  const [{ now, thresholds, outages }, exports] = await Promise.all([
    readCountingRules(core),
    listExports(core.db),
  ]);
  return {
    nowMs: now.getTime(),
    silentBeforeMs: countedBefore(now, thresholds.staleAfterSeconds, outages).getTime(),
    outages: outages.map(({ beganAt, countedFrom }) => ({
      fromMs: beganAt.getTime(),
      untilMs: countedFrom?.getTime() ?? Number.POSITIVE_INFINITY,
    })),
    exports,
  };
};

/** A host's hour, its accounts, their sums, and the resulting state; null without one. */
export interface DecidedHour extends HostHour {
  accounts: readonly HourAccount[];
  sums: HourAccounts;
  status: HourStatus | null;
}

/** Decides on hours of hosts, in their order. */
export const readHourStatuses = async (
  { db }: Pick<Core, "db">,
  { nowMs, silentBeforeMs, outages, exports }: HourRules,
  hours: readonly HostHour[],
): Promise<DecidedHour[]> => {
  const hosts = [...new Set(hours.map(({ host }) => host))];
  const [facts, all] = await Promise.all([findHostFacts(db, hosts), findHourAccounts(db, hours)]);
  return hours.flatMap(({ host, hourStartMs }) => {
    const known = facts.get(host);
    if (known === undefined) return [];
    const { lastSeenMs, ...times } = known;
    const accounts = all.get(hourKey({ host, hourStartMs })) ?? [];
    const sums = sumHour(hourStartMs, accounts.map(factsOf));
    const isSilent = lastSeenMs === null || lastSeenMs < silentBeforeMs;
    const status = stateOfHour(
      { ...times, hourStartMs, accounts: sums, outages, isSilent, exports },
      nowMs,
    );
    return [{ host, hourStartMs, accounts, sums, status }];
  });
};

/** Returns the facts of an account that decide on the state of its hour. */
const factsOf = (account: HourAccount): AccountFacts => ({
  ...account,
  queueId: account.queueId.toHex(),
  // The body of an account that core refuses may be anything.
  stated: account.refused === null ? readLosses(account.body) : noLosses,
});

/** Returns the hours of a host in which it was enrolled, the oldest first. Throws 404 `not_found`. */
export const reportHostHours = async (
  { db }: Pick<Core, "db">,
  identityId: string,
  range: HourRange,
): Promise<{ host: string; hours: ReportedHour[]; exports: readonly NamedExport[] }> => {
  const [found] = (await findEnrolledHosts(db, { identityId })).values();
  const enrolled = requireFound(found, "collector");
  const host = enrolled.identity;
  const [days, accounts, exports] = await Promise.all([
    findDays(db, [host], daysOf(range)),
    findHostAccounts(db, host, range),
    listExports(db),
  ]);
  const facts = accounts.map((account) => ({ ...factsOf(account), account }));
  const hours = settledHours(days, range, enrolled).map(({ hourStartMs, state, note }) => {
    const endMs = hourStartMs + hourMs;
    const own = facts.filter(({ fromMs, toMs, isStopped }) =>
      isStopped ? toMs > hourStartMs && fromMs < endMs : fromMs >= hourStartMs && fromMs < endMs,
    );
    const sums = own.length === 0 ? null : sumHour(hourStartMs, own);
    return { hourStartMs, state, note, accounts: own.map(({ account }) => account), sums };
  });
  return { host, hours, exports };
};

const daysOf = ({ fromMs, toMs }: HourRange) => ({ from: dayAt(fromMs), to: dayAt(toMs - 1) });

/** A settled hour. */
export interface SettledHour {
  hourStartMs: number;
  state: HourState | null;
  note: HourNote | undefined;
}

/** Returns the hours of a range that have a state, or will have one. */
const settledHours = (
  days: readonly DayRow[],
  { fromMs, toMs }: HourRange,
  enrolled: Pick<EnrolledHost, "enrolledMs" | "revokedMs"> | undefined,
): SettledHour[] => {
  const known = new Map(
    days.map((row) => [row.day, { states: row.states, notes: unpackNotes(row.details) }]),
  );
  const hours = Array.from({ length: (toMs - fromMs) / hourMs }, (_, index) => {
    const hourStartMs = fromMs + index * hourMs;
    const row = known.get(dayAt(hourStartMs));
    const hour = (hourStartMs % dayMs) / hourMs;
    return { hourStartMs, state: stateOfByte(row?.states[hour]), note: row?.notes.get(hour) };
  });
  const firstMs = hours.find(({ state }) => state !== null)?.hourStartMs ?? toMs;
  const { enrolledMs = firstMs, revokedMs = Number.POSITIVE_INFINITY } = enrolled ?? {};
  const isOfHost = (hourStartMs: number) =>
    hourStartMs + hourMs > enrolledMs && hourStartMs < revokedMs;
  return hours.filter(({ hourStartMs, state }) => state !== null || isOfHost(hourStartMs));
};

/** A host with matching hours, all its hours of the range, and the queues whose accounts these wait for. */
export interface HostStates extends MatchingHost {
  name: EnrolledHost | undefined;
  settled: SettledHour[];
  openQueues: string[];
}

const withHours = async (
  { db }: Pick<Core, "db">,
  range: HourRange,
  matching: readonly MatchingHost[],
): Promise<Omit<HostStates, "openQueues">[]> => {
  const hosts = matching.map(({ host }) => host);
  const [days, names] = await Promise.all([
    findDays(db, hosts, daysOf(range)),
    findEnrolledHosts(db, { identities: hosts }),
  ]);
  const daysOfHost = Map.groupBy(days, ({ host }) => host);
  return matching.map((each) => {
    const name = names.get(each.host);
    return { ...each, name, settled: settledHours(daysOfHost.get(each.host) ?? [], range, name) };
  });
};

/** Returns the ids of the queues that could still send the account of one of these hours. */
const openQueuesOf = (queues: readonly QueueFacts[], settled: readonly SettledHour[]): string[] => {
  const last = settled.findLast(({ state }) => state !== null && pendingStates.includes(state));
  if (last === undefined) return [];
  const endMs = last.hourStartMs + hourMs;
  return queues
    .filter(
      (queue) => queue.endMs === null && (queue.accountedThroughMs ?? 0) < endMs - toleranceMs,
    )
    .flatMap(({ queueId }) => queueId || []);
};

/** Returns when core settles the next hour, which is the first host's first one at the earliest; null without a host. */
const nextSettlingMs = async ({
  db,
  clock,
}: Pick<Core, "db" | "clock">): Promise<number | null> => {
  const { hourStartMs, enrolledMs } = await findSettling(db);
  if (enrolledMs === null) return null;
  // A core that has settled nothing begins with the newest hour that is due.
  const afterMs = hourStartMs === null ? clock.now() - graceMs - hourMs : hourStartMs;
  const nextMs = Math.max(afterMs + hourMs, enrolledMs);
  return Math.floor(nextMs / hourMs) * hourMs + hourMs + graceMs;
};

/** Returns the number of hosts in each state for each hour, and a page of the hosts with matching hours. */
export const reportFleetHours = async (
  core: Pick<Core, "db" | "clock" | "hourColumns">,
  filter: HourFilter,
  page: { after: MatchingHost | null; limit: number },
): Promise<{
  counts: FleetHourCounts[];
  total: number;
  hosts: HostStates[];
  next: MatchingHost | null;
  settlesMs: number | null;
}> => {
  const [counts, { rows, total, next }, settlesMs] = await Promise.all([
    findHourCounts(core.db, filter),
    findMatchingHosts(core.db, filter, page, core.hourColumns),
    nextSettlingMs(core),
  ]);
  const [hosts, facts] = await Promise.all([
    withHours(core, filter, rows),
    findHostFacts(
      core.db,
      rows.map(({ host }) => host),
    ),
  ]);
  const withQueues = hosts.map((each) => ({
    ...each,
    openQueues: openQueuesOf(facts.get(each.host)?.queues ?? [], each.settled),
  }));
  return { counts, total, hosts: withQueues, next, settlesMs };
};

/** A matching hour of a host. */
export interface MatchingHour extends SettledHour {
  host: string;
  name: EnrolledHost | undefined;
}

/** Hosts that an export reads together. */
const exportHosts = exportBatchRows / 10;

/** Returns every matching hour, in batches; audited. */
export const exportFleetHours = (
  core: Pick<Core, "db" | "clock" | "entropy" | "hourColumns">,
  filter: HourFilter,
  request: RequestedExport,
): AsyncGenerator<MatchingHour[], void, void> =>
  auditedExport(
    core,
    request,
    { action: "completeness.export", target: { type: "completeness", id: "fleet" } },
    async ({ after }: { after: MatchingHost | null }) => {
      const { rows, next } = await findMatchingHosts(
        core.db,
        filter,
        { after, limit: exportHosts },
        core.hourColumns,
      );
      const hosts = await withHours(core, filter, rows);
      const hours = hosts.flatMap(({ host, name, settled }) =>
        settled.flatMap((hour) =>
          hour.state !== null && filter.states.includes(hour.state)
            ? [{ ...hour, host, name }]
            : [],
        ),
      );
      return { rows: hours, next };
    },
  );
