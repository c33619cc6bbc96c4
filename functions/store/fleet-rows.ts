/**
 * The fleet as one relation: a row per identity with every condition of contract section 6 as a boolean column, the derived state
 * and the drift. Filter, count, page, facets and export all select from it, so that they cannot disagree.
 */
import { type SQL, sql } from "drizzle-orm";
import { type Drift, type FleetState, fleetConditions } from "../../proto/fleet-health.ts";
import type { FleetThresholds } from "./fleet-thresholds.ts";
import { substring } from "./substring.ts";

/** The moment and the thresholds that the states are decided by. */
export interface FleetRules {
  now: Date;
  thresholds: FleetThresholds;
  /** Versions of the fleet that are not SemVer or are below the minimum: few, and decided by the semver library. */
  unsupportedVersions: readonly string[];
}

/** What a caller may ask for; absent means any. The parts combine by AND. */
export interface FleetFilter {
  states?: readonly FleetState[];
  /** Substring of device, identity, platform or version, in any case. */
  text?: string;
  device?: string;
  identity?: string;
  platform?: string;
  version?: string;
  notVersion?: string;
  drift?: Drift;
  heartbeatOlderThanSeconds?: number;
  expiresWithinSeconds?: number;
  /** Heartbeats, and has never forwarded an envelope. */
  neverForwarded?: boolean;
}

const moment = (at: Date): SQL => sql`${at.toISOString()}::timestamptz`;
const seconds = (count: number): SQL => sql`make_interval(secs => ${count}::double precision)`;

/** The relation `fleet`, as a subquery to select from. */
export const fleetRelation = ({ now, thresholds, unsupportedVersions }: FleetRules): SQL => sql`(
  select base.*,
    case ${sql.join(
      fleetConditions.map((state) => sql`when ${sql.identifier(`is_${state}`)} then ${state}`),
      sql` `,
    )} else 'healthy' end as state
  from (
    select i.id, i.identity, i.device_id, i.enrolled_at, i.revoked_at, i.last_auth_failure_at, i.last_auth_failure_reason,
      coalesce(h.hostname, i.hostname) as hostname,
      coalesce(h.platform, i.platform) as platform,
      coalesce(h.collector_version, i.collector_version) as version,
      h.last_heartbeat_at, e.last_envelope_at,
      h.config_errors[1] as config_error, h.running_config_hash, h.last_known_good_config_hash,
      h.queue_records, h.queue_bytes, h.queue_bytes_max, h.queue_oldest_record_age_seconds, h.dropped_records_total,
      h.dropped_since_previous, h.renewal_status, h.renewal_last_error, h.renewal_last_attempt_at,
      c.id as certificate_id, c.status as certificate_status, c.issued_at as certificate_issued_at,
      c.not_after as certificate_not_after, c.renew_after as certificate_renew_after, c.revoked_at as certificate_revoked_at,
      s.id as successor_id, s.not_after as successor_not_after, s.renew_after as successor_renew_after,
      desired.config_hash as desired_config_hash,
      case
        when desired.config_hash is null then 'no_desired'
        when h.running_config_hash is null then 'unknown'
        when h.running_config_hash = desired.config_hash then 'in_sync'
        when h.running_config_hash = h.last_known_good_config_hash then 'on_last_known_good'
        else 'drifted'
      end as drift,
      i.revoked_at is not null or (c.status = 'revoked' and not c.other_active) as is_revoked,
      h.last_heartbeat_at is null and e.last_envelope_at is null
        and i.enrolled_at > ${moment(now)} - ${seconds(thresholds.enrollingSeconds)} as is_enrolling,
      (c.not_after <= ${moment(now)} and s.id is null) or coalesce(h.renewal_status = 'failed', false) as is_renewal_failed,
      case
        when h.last_heartbeat_at is null then i.enrolled_at <= ${moment(now)} - ${seconds(thresholds.enrollingSeconds)}
        else h.last_heartbeat_at < ${moment(now)} - ${seconds(thresholds.staleAfterSeconds)}
      end as is_stale,
      s.id is null and c.not_after - ${moment(now)}
        < (c.not_after - c.issued_at) * ${thresholds.certExpiringFraction}::double precision as is_cert_expiring,
      coalesce(not h.config_valid, false) as is_config_invalid,
      coalesce(h.collector_version, i.collector_version) = any(${textArray(unsupportedVersions)}) as is_unsupported_version,
      coalesce(h.queue_at_risk or h.dropped_since_previous, false) as is_queue_at_risk
    from collector_identity i
    left join collector_health h on h.identity_id = i.id
    left join ingest_host e on e.host_id = i.identity
    -- The certificate last used; the newest while none has been used.
    cross join lateral (
      select own.*, exists (
        select from certificate other
        where other.identity_id = i.id and other.id <> own.id and other.status = 'active' and other.not_after > ${moment(now)}
      ) as other_active
      from certificate own where own.identity_id = i.id
      order by own.first_used_at desc nulls last, own.issued_at desc limit 1
    ) c
    left join certificate s on s.predecessor_id = c.id and s.status = 'active' and s.first_used_at is null
      and s.not_after > ${moment(now)}
    left join config_assignment a on a.identity_id = i.id and a.ended_at is null
    left join collector_config k on k.id = a.config_id
    cross join lateral (select coalesce(k.config_hash, h.desired_config_hash) as config_hash) desired
  ) base
) fleet`;

const textArray = (values: readonly string[]): SQL =>
  sql`array[${sql.join(
    values.map((value) => sql`${value}`),
    sql`, `,
  )}]::text[]`;

/** The WHERE of a filter over `fleetRelation`, without the states, which the summary leaves out. */
export const fleetPredicate = (filter: FleetFilter, now: Date): SQL => {
  const parts: SQL[] = [sql`true`];
  const add = <Value>(value: Value | undefined, part: (value: Value) => SQL) => {
    if (value !== undefined) parts.push(part(value));
  };
  add(filter.text, (text) => {
    const pattern = substring(text);
    return sql`(device_id ilike ${pattern} or identity ilike ${pattern} or platform ilike ${pattern} or version ilike ${pattern})`;
  });
  add(filter.device, (device) => sql`device_id = ${device}`);
  add(filter.identity, (identity) => sql`identity = ${identity}`);
  add(filter.platform, (platform) => sql`platform = ${platform}`);
  add(filter.version, (version) => sql`version = ${version}`);
  add(filter.notVersion, (version) => sql`version <> ${version}`);
  add(filter.drift, (drift) => sql`drift = ${drift}`);
  add(filter.heartbeatOlderThanSeconds, (age) => sql`last_heartbeat_at < ${moment(now)} - ${seconds(age)}`);
  add(
    filter.expiresWithinSeconds,
    (within) => sql`certificate_not_after <= ${moment(now)} + ${seconds(within)} and successor_id is null`,
  );
  if (filter.neverForwarded) parts.push(neverForwarded);
  return sql.join(parts, sql` and `);
};

/** Heartbeats without ever having forwarded: the count of the summary and the filter are the same predicate. */
export const neverForwarded = sql`(last_heartbeat_at is not null and last_envelope_at is null)`;

/** Whether the last heartbeat is recent, the complement of `stale` for a host that ever reported. */
export const heartbeatRecent = ({ now, thresholds }: FleetRules): SQL =>
  sql`last_heartbeat_at >= ${moment(now)} - ${seconds(thresholds.staleAfterSeconds)}`;
