import type { Core } from "#functions/core.ts";
import { type ListedTokenRow, listAllTokens } from "#functions/store/enrollment/report.ts";
import { type FleetRow, findFleetPage } from "#functions/store/fleet/host-rows.ts";
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
import type { FleetSort } from "#proto/fleet-health/vocabulary.ts";
import type { ViewCore } from "./rules.ts";
import { readFleetView } from "./view-rules.ts";

/** Hosts that the report names for each kind. */
const hostsNamed = 5;
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
      const select = async (filter: FleetFilter, sort: FleetSort, order: "asc" | "desc") => {
        const page = { sort, order, limit: hostsNamed, after: null };
        const [count, { rows }] = await Promise.all([
          countHosts(view, [filter]),
          findFleetPage(view, filter, page),
        ]);
        return { rows, counted: { count, query: filterToParams(filter).toString() } };
      };
      const [certificates, queues, tokens, cores, figures] = await Promise.all([
        select(expiresBetween(rules.now, until), "certificate_not_after", "asc"),
        select({ queueFullWithinSeconds: hours * 3600 }, "queue_bytes", "desc"),
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
        certificates: { ...certificates.counted, first: certificates.rows.map(expiryOf) },
        queues: { ...queues.counted, fullest: queues.rows.map((row) => fillingOf(row, now)) },
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

/** Omits hosts that renew in time: a certificate of a day always expires within three. */
const expiresBetween = (from: Date, until: Date): FleetFilter => ({
  expires: [`${toSecond(from)}..${toSecond(until)}`],
  condition: ["renewal_failed", "stale", "cert_expiring"],
});

const expiryOf = (row: FleetRow): FleetAhead["certificates"]["first"][number] => ({
  identity_id: row.identity_id,
  device_id: row.device_id,
  expires_at: new Date(row.successor_not_after ?? row.certificate_not_after).toISOString(),
});

const fillingOf = (row: FleetRow, now: number): FleetAhead["queues"]["fullest"][number] => {
  const bytes = Number(row.queue_bytes);
  const bytesMax = Number(row.queue_bytes_max);
  const ageSeconds = Number(row.queue_oldest_record_age_seconds);
  return {
    identity_id: row.identity_id,
    device_id: row.device_id,
    bytes,
    max_bytes: bytesMax,
    oldest_record_age_seconds: ageSeconds,
    full_at: rfc3339(now + (Math.max(0, bytesMax - bytes) / bytes) * ageSeconds * 1000),
  };
};

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
  { telemetryBytes, oldestDay }: Pick<DatabaseFigures, "telemetryBytes" | "oldestDay">,
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
