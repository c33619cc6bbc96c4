import { shareNextRun } from "../../../kit/share-next-run.ts";
import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import { historyMax } from "../../../proto/fleet-health/report.ts";
import type { CoreConfig } from "../../config.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type CollectorEvent, findCollectorEvents } from "../../store/audit-list.ts";
import { findOutages } from "../../store/core-sessions.ts";
import { findHostLosses, type HostLoss } from "../../store/export-dead-letters.ts";
import { countFleet, type FleetCounts } from "../../store/fleet-facets.ts";
import {
  type FleetPage,
  type FleetPosition,
  type FleetRow,
  type FleetSummary,
  findFleetNames,
  findFleetPage,
  findFleetRow,
  summarizeFleet,
} from "../../store/fleet-report.ts";
import type { CountingRules, FleetRules, FleetThresholds } from "../../store/fleet-rows.ts";
import { isSupported } from "../../store/fleet-versions.ts";
import { findHostBackground, type HostBackground } from "../../store/identities.ts";

/** The parts of core that read the fleet. */
export type FleetCore = Pick<Core, "db" | "clock" | "config">;

const missedHeartbeatsMax = 3;
/** Heartbeats follow each other after the interval and a tenth of it at most. */
const jitterMax = 1.1;
/** A collector waits this long for core's answer. */
const requestSecondsMax = 30;
/** A host that sends little may be quiet for some minutes. */
const forwardingSecondsMin = 5 * 60;

/** Returns the thresholds of a configuration. */
export const fleetThresholds = (
  config: Pick<CoreConfig, "heartbeatIntervalSeconds" | "collectorVersionMin">,
): FleetThresholds => ({
  heartbeatIntervalSeconds: config.heartbeatIntervalSeconds,
  staleAfterSeconds: missedHeartbeatsMax * config.heartbeatIntervalSeconds,
  forwardingSeconds: Math.max(forwardingSecondsMin, missedHeartbeatsMax * config.heartbeatIntervalSeconds),
  enrollingSeconds: 15 * 60,
  returnSeconds: Math.ceil(jitterMax * config.heartbeatIntervalSeconds) + requestSecondsMax,
  certExpiringFraction: 0.25,
  versionMin: config.collectorVersionMin,
});

/** Returns the rules that decide when a host is silent, and reads when core could not receive, also if that has just ended. */
export const readCountingRules = async ({ db, clock, config }: FleetCore): Promise<CountingRules> => {
  const now = new Date(clock.now());
  const thresholds = fleetThresholds(config);
  const outages = (await findOutages(db, now)).map((outage) => ({
    ...outage,
    countedFrom: outage.endedAt && new Date(outage.endedAt.getTime() + thresholds.returnSeconds * 1000),
  }));
  return { now, thresholds, outages };
};

/** Returns the rules that decide the states now, and reads the versions and platforms of the fleet that they refer to. */
export const readFleetRules = async (core: FleetCore): Promise<FleetRules> => {
  const [rules, { versions, platforms }] = await Promise.all([readCountingRules(core), findFleetNames(core.db)]);
  const unsupportedVersions = versions.filter((version) => !isSupported(version, rules.thresholds.versionMin));
  return { ...rules, versions, platforms, unsupportedVersions };
};

/** A page of the fleet with its rules, and the summary of the whole fleet. */
export interface FleetReport {
  rules: FleetRules;
  summary: FleetSummary;
  rows: FleetRow[];
  next: FleetPosition | null;
}

/**
 * Creates the function that returns the fleet health report (docs/fleet-health.md). The summary applies the filter except its states, so
 * concurrent reports that differ in states, order or page share the scan that counts it. Page and summary are separate queries, each with
 * the rules of its start: a heartbeat that arrives between them may show in one only.
 */
export const createHealthReports = (core: FleetCore) => {
  const summarize = shareNextRun(
    async (filter: FleetFilter) => summarizeFleet(core.db, await readFleetRules(core), filter),
    (filter) => JSON.stringify({ ...filter, states: undefined }),
  );
  const findPage = async (filter: FleetFilter, page: FleetPage) => {
    const rules = await readFleetRules(core);
    return { rules, ...(await findFleetPage(core.db, rules, filter, page)) };
  };
  return async (filter: FleetFilter, page: FleetPage): Promise<FleetReport> => {
    const [summary, found] = await Promise.all([summarize(filter), findPage(filter, page)]);
    return { summary, ...found };
  };
};

/**
 * Creates the function that returns the counts that the page draws, under a filter with its states (docs/fleet-health.md). Concurrent
 * calls with one filter share them.
 */
export const createFacetCounts = (core: FleetCore) =>
  shareNextRun(
    async (filter: FleetFilter): Promise<{ rules: FleetRules; counts: FleetCounts }> => {
      const rules = await readFleetRules(core);
      return { rules, counts: await countFleet(core.db, rules, filter) };
    },
    (filter) => JSON.stringify(filter),
  );

/** Returns one host with its policy, its config errors and its audit events, newest first. Throws 404 `not_found`. */
export const reportHost = async (
  core: FleetCore,
  identityId: string,
): Promise<{
  rules: FleetRules;
  row: FleetRow;
  background: HostBackground;
  history: CollectorEvent[];
  exportLosses: HostLoss[];
}> => {
  const rules = await readFleetRules(core);
  const [row, background, history, exportLosses] = await Promise.all([
    findFleetRow(core.db, rules, identityId),
    findHostBackground(core.db, identityId),
    findCollectorEvents(core.db, identityId, historyMax),
    findHostLosses(core.db, identityId),
  ]);
  if (row === undefined || background === undefined) throw new Problem("not_found", { detail: "No such collector" });
  return { rules, row, background, history, exportLosses };
};
