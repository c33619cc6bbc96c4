import type { Core } from "#functions/core.ts";
import { type ListedTokenRow, listAllTokens } from "#functions/store/enrollment/report.ts";
import {
  type FillingQueue,
  type FleetRow,
  findFillingQueues,
  findFleetPage,
} from "#functions/store/fleet/host-rows.ts";
import { countHosts } from "#functions/store/fleet/summary.ts";
import {
  type CoreReport,
  type DatabaseFigures,
  findCoreReports,
  readDatabaseFigures,
} from "#functions/store/system/system.ts";
import { dayMs, hourMs, rfc3339 } from "#kit/clock.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { aheadNamesMax, type FleetAhead } from "#proto/fleet-health/ahead.ts";
import { type FleetFilter, filterToParams, toSecond } from "#proto/fleet-health/filter.ts";
import type { ViewCore } from "./rules.ts";
import { readFleetView } from "./view-rules.ts";

/** Hosts that the report names for each kind. */
const hostsNamed = 5;
/** The page of the hosts whose certificates end first. */
export const soonestExpiry = {
  sort: "certificate_not_after",
  order: "asc",
  limit: hostsNamed,
  after: null,
} as const;
/** The most tokens that are counted. */
const tokensMax = 1000;

/** Creates the function that reports what expires or fills up within some hours (docs/fleet-page.md). Concurrent calls share a result. */
export const createAheadReports = (core: ViewCore & Pick<Core, "reports">) =>
  shareNextRun(
    async (hours: number): Promise<FleetAhead> => {
      const view = await readFleetView(core, {});
      const { rules } = view;
      const now = rules.now.getTime();
      const until = new Date(now + hours * hourMs);
      const counted = async (filter: FleetFilter) => ({
        count: await countHosts(view, [filter]),
        query: filterToParams(filter).toString(),
      });
      const expiring = expiresBetween(rules.now, until);
      const seconds = hours * 3600;
      const [certificates, queues, expiringFirst, fillingFirst, tokens, cores, figures] =
        await Promise.all([
          counted(expiring),
          counted({ queueFullWithinSeconds: seconds }),
          findFleetPage(view, expiring, soonestExpiry),
          findFillingQueues(core.db, seconds, rules, hostsNamed),
          listAllTokens(
            core.db,
            rules.now,
            { states: ["active"], expireBy: until },
            { after: null, limit: tokensMax },
          ),
          findCoreReports(core.reports),
          readDatabaseFigures(core.reports),
        ]);
      return {
        generated_at: rfc3339(now),
        until: until.toISOString(),
        certificates: { ...certificates, first: expiringFirst.rows.map(expiryOf) },
        queues: { ...queues, fullest: fillingFirst.map((queue) => fillingOf(queue, now)) },
        tokens: tokensOf(tokens.rows),
        system_certificates: certificatesOf(cores, until),
        telemetry: telemetryAt(figures, {
          now,
          until,
          retentionDays: core.config.ingest?.retentionDays,
        }),
      };
    },
    String,
    core.viewsShared,
  );

/** Selects hosts by the end of their certificate, but those that renew in time: one of a day always expires within three. */
export const expiresBetween = (from: Date, until: Date): FleetFilter => ({
  expires: [`${toSecond(from)}..${toSecond(until)}`],
  condition: ["renewal_failed", "stale", "cert_expiring"],
});

/** Returns when the certificate of a host ends, or its successor. */
export const expiryOf = (row: FleetRow): FleetAhead["certificates"]["first"][number] => ({
  identity_id: row.identity_id,
  device_id: row.device_id,
  expires_at: new Date(row.successor_not_after ?? row.certificate_not_after).toISOString(),
});

const fillingOf = (
  { seconds_left: left, ...queue }: FillingQueue,
  now: number,
): FleetAhead["queues"]["fullest"][number] => ({ ...queue, full_at: rfc3339(now + left * 1000) });

const tokensOf = (rows: readonly ListedTokenRow[]): FleetAhead["tokens"] => ({
  count: rows.length,
  items: rows
    .toSorted((a, b) => a.expiresAt.getTime() - b.expiresAt.getTime())
    .slice(0, aheadNamesMax)
    .map(({ id, tokenPrefix, policyName, expiresAt, maxUses, useCount }) => ({
      id,
      token_prefix: tokenPrefix,
      policy_name: policyName,
      expires_at: expiresAt.toISOString(),
      uses_left: maxUses === 0 ? null : Math.max(0, maxUses - useCount),
    })),
});

const certificatesOf = (
  cores: readonly CoreReport[],
  until: Date,
): FleetAhead["system_certificates"] => {
  // The newest report of each machine, in order.
  const newest = new Map(cores.map((report) => [report.machine, report]));
  const items = [...newest.values()]
    .filter(({ stoppedAt }) => stoppedAt === null)
    .flatMap(({ machine, certificates }) =>
      Object.entries(certificates).map(([name, expiresAt]) => ({
        machine,
        name,
        expires_at: expiresAt,
      })),
    )
    .filter(({ expires_at }) => Date.parse(expires_at) <= until.getTime())
    .sort((a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at));
  return { count: items.length, items: items.slice(0, aheadNamesMax) };
};

/** Returns the bytes of telemetry at a time, if each day adds as much as the stored ones and retention drops days until then. */
const telemetryAt = (
  { telemetryBytes, oldestDay }: DatabaseFigures,
  { now, until, retentionDays }: { now: number; until: Date; retentionDays: number | undefined },
): FleetAhead["telemetry"] => {
  if (oldestDay === null || retentionDays === undefined) return null;
  const days = (now - oldestDay.getTime()) / dayMs;
  const daysThen = Math.min((until.getTime() - oldestDay.getTime()) / dayMs, retentionDays + 1);
  return {
    bytes: telemetryBytes,
    days: Math.round(days * 10) / 10,
    retention_days: retentionDays,
    bytes_then: days <= 0 ? telemetryBytes : Math.round((telemetryBytes / days) * daysThen),
  };
};
