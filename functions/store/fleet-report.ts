import { type SQL, sql } from "drizzle-orm";
import type { RenewalStatus } from "../../drizzle/schema/fleet.ts";
import type { Drift, FleetCondition, FleetSort, FleetState } from "../../proto/fleet-health.ts";
import type { Executor } from "./database.ts";
import {
  type FleetFilter,
  type FleetRules,
  fleetPredicate,
  fleetRelation,
  heartbeatRecent,
  neverForwarded,
} from "./fleet-rows.ts";

/** A row of the relation as the driver gives it: times as text, 64-bit integers as decimal strings. */
export type FleetRow = Record<`is_${FleetCondition}`, boolean> & {
  id: string;
  identity: string;
  device_id: string;
  hostname: string | null;
  platform: string;
  version: string;
  state: FleetState;
  enrolled_at: string;
  revoked_at: string | null;
  last_heartbeat_at: string | null;
  last_envelope_at: string | null;
  last_auth_failure_at: string | null;
  last_auth_failure_reason: string | null;
  certificate_id: string;
  certificate_status: "active" | "replaced" | "revoked";
  certificate_issued_at: string;
  certificate_not_after: string;
  certificate_renew_after: string;
  certificate_revoked_at: string | null;
  successor_id: string | null;
  successor_not_after: string | null;
  successor_renew_after: string | null;
  config_error: string | null;
  running_config_hash: string | null;
  desired_config_hash: string | null;
  last_known_good_config_hash: string | null;
  drift: Drift;
  queue_records: string | null;
  queue_bytes: string | null;
  queue_bytes_max: string | null;
  queue_oldest_record_age_seconds: string | null;
  dropped_records_total: string | null;
  dropped_since_previous: boolean | null;
  renewal_status: RenewalStatus | null;
  renewal_last_error: string | null;
  renewal_last_attempt_at: string | null;
};

/** What a page can be sorted by, each with the value that stands for "none": such rows come first in rising order. */
const sortKeys = {
  identity: sql`identity`,
  last_heartbeat_at: sql`coalesce(last_heartbeat_at, '-infinity'::timestamptz)`,
  last_envelope_at: sql`coalesce(last_envelope_at, '-infinity'::timestamptz)`,
  certificate_not_after: sql`certificate_not_after`,
  queue_bytes: sql`coalesce(queue_bytes, -1)`,
} satisfies Record<FleetSort, SQL>;

const sortTypes: Record<FleetSort, SQL> = {
  identity: sql`text`,
  last_heartbeat_at: sql`timestamptz`,
  last_envelope_at: sql`timestamptz`,
  certificate_not_after: sql`timestamptz`,
  queue_bytes: sql`bigint`,
};

/** Where a page begins: after the row with this sort value and id. */
export interface FleetPosition {
  value: string;
  id: string;
}

/** One page of the fleet, and where the next begins: null on the last. */
export const findFleetPage = async (
  db: Executor,
  rules: FleetRules,
  filter: FleetFilter,
  page: { sort: FleetSort; order: "asc" | "desc"; limit: number; after: FleetPosition | null },
): Promise<{ rows: FleetRow[]; next: FleetPosition | null }> => {
  const { sort, order, limit, after } = page;
  const key = sortKeys[sort];
  const direction = order === "asc" ? sql`asc` : sql`desc`;
  const where = [fleetPredicate(filter, rules.now)];
  if (filter.states) where.push(sql`state in ${filter.states}`);
  if (after) {
    const comparison = order === "asc" ? sql`>` : sql`<`;
    where.push(sql`(${key}, id) ${comparison} (${after.value}::${sortTypes[sort]}, ${after.id}::uuid)`);
  }
  const rows = await db.execute<FleetRow & { sort_value: string }>(sql`
    select *, (${key})::text as sort_value from ${fleetRelation(rules)}
    where ${sql.join(where, sql` and `)}
    order by ${key} ${direction}, id ${direction} limit ${limit + 1}`);
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return { rows: shown, next: rows.length > limit && last ? { value: last.sort_value, id: last.id } : null };
};

/** Counts over the whole fleet under a filter, its states left out. */
export interface FleetSummary {
  enrolled: number;
  activeRecentHeartbeats: number;
  forwarding: number;
  neverForwarded: number;
  byState: ReadonlyMap<FleetState, number>;
}

/** The summary of a filter; states with no row are absent from `byState`. */
export const summarizeFleet = async (db: Executor, rules: FleetRules, filter: FleetFilter): Promise<FleetSummary> => {
  const rows = await db.execute<Record<"enrolled" | "recent" | "forwarding" | "never", string> & { state: FleetState }>(
    sql`
    select state, count(*) as enrolled,
      count(*) filter (where ${heartbeatRecent(rules)}) as recent,
      count(*) filter (where last_envelope_at is not null) as forwarding,
      count(*) filter (where ${neverForwarded}) as never
    from ${fleetRelation(rules)} where ${fleetPredicate(filter, rules.now)} group by state`,
  );
  const total = (column: "enrolled" | "recent" | "forwarding" | "never") =>
    rows.reduce((sum, row) => sum + Number(row[column]), 0);
  return {
    enrolled: total("enrolled"),
    activeRecentHeartbeats: total("recent"),
    forwarding: total("forwarding"),
    neverForwarded: total("never"),
    byState: new Map(rows.map((row) => [row.state, Number(row.enrolled)])),
  };
};

/** Every version that a collector of the fleet runs or enrolled with. */
export const findFleetVersions = async (db: Executor): Promise<string[]> => {
  const rows = await db.execute<{ version: string }>(sql`
    select distinct coalesce(h.collector_version, i.collector_version) as version
    from collector_identity i left join collector_health h on h.identity_id = i.id`);
  return rows.map((row) => row.version);
};
