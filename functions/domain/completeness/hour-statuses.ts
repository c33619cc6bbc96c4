import type { Core, ReadCore } from "#functions/core.ts";
import {
  findHostFacts,
  findHourAccounts,
  type HostHour,
  type HourAccount,
  hourKey,
  listExports,
  type NamedExport,
} from "#functions/store/completeness/hour-facts.ts";
import { countedBefore } from "#functions/store/fleet/counted-time.ts";
import { noLosses } from "#proto/completeness/account.ts";
import {
  type AccountFacts,
  type HourAccounts,
  type HourStatus,
  stateOfHour,
  sumHour,
} from "#proto/completeness/hour-state.ts";
import { readCountingRules } from "../fleet/rules.ts";
import { readLosses } from "../telemetry/read-account.ts";

/** What decides on the hours of all hosts. */
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
  return hours.flatMap(({ host, hourMs }) => {
    const known = facts.get(host);
    if (known === undefined) return [];
    const { lastSeenMs, ...times } = known;
    const accounts = all.get(hourKey({ host, hourMs })) ?? [];
    const sums = sumHour(hourMs, accounts.map(factsOf));
    const isSilent = lastSeenMs === null || lastSeenMs < silentBeforeMs;
    const status = stateOfHour(
      { ...times, hourMs, accounts: sums, outages, isSilent, exports },
      nowMs,
    );
    return [{ host, hourMs, accounts, sums, status }];
  });
};

/** Returns the facts of an account that decide on the state of its hour. */
export const factsOf = (account: HourAccount): AccountFacts => ({
  ...account,
  queueId: account.queueId.toHex(),
  // The body of an account that core refuses may be anything.
  stated: account.refused === null ? readLosses(account.body) : noLosses,
});
