import type { SqlClient } from "../../functions/store/database/pool/sql-client.ts";

/** What is true of a fleet, by the tables of collectors alone. */
export interface Truths {
  states: { state: string; hosts: number }[];
  stale: { device_id: string }[];
  stopped: { hosts: number; version: string; platform: string }[];
  never: { device_id: string }[];
  expiring: { expiring: number }[];
  versions: { version: string; hosts: number }[];
  drift: { drift: string; hosts: number }[];
  queues: { at_risk: number; dropping: number }[];
  host: { state: string; identity: string; version: string }[];
  changes: { actor: string; action: string; host: string; reason: string }[];
  refusals: { action: string; reason: string; events: number }[];
}

/** The name of a truth. */
export type TruthName = keyof Truths;

/**
 * Reads a truth. The statements read neither `fleet_host` nor a view: they are written from docs/fleet-health.md, for a fleet of
 * `seedFleet`, whose unsupported versions they name.
 */
export const readTruth = async <Name extends TruthName>(sql: SqlClient, name: Name): Promise<Truths[Name]> =>
  (await sql.unsafe(`${host} ${statements[name]}`)) as unknown as Truths[Name];

/** One row per enrolled host. */
const host = `with used as (
  select distinct on (identity_id) * from certificate order by identity_id, first_used_at desc nulls last, issued_at desc, id desc
), next as (
  select predecessor_id, max(not_after) as not_after from certificate
  where status = 'active' and first_used_at is null and not_after > now() group by predecessor_id
), raw as (
  select i.identity, i.device_id, i.enrolled_at, i.id, coalesce(h.collector_version, i.collector_version) as version,
    coalesce(h.platform, i.platform) as platform, h.last_heartbeat_at as heartbeat, e.last_envelope_at as envelope,
    h.dropped_records_total as dropped, h.running_config_hash as running, h.last_known_good_config_hash as known_good,
    coalesce(assigned.config_hash, h.desired_config_hash) as desired, greatest(c.not_after, next.not_after) as expires,
    i.revoked_at is not null or (c.status = 'revoked' and not exists (
      select from certificate o where o.identity_id = i.id and o.status = 'active' and o.not_after > now())) as is_revoked,
    h.renewal_status is not distinct from 'failed' or (c.not_after <= now() and next.not_after is null) as has_renewal_failed,
    c.not_after - now() < (c.not_after - c.issued_at) / 4 and next.not_after is null as is_expiring,
    h.config_valid is false as has_invalid_config,
    h.desired_config_hash = coalesce(assigned.config_hash, h.desired_config_hash)
      and (not h.config_valid or array_to_string(h.config_errors, '|') ~ '(^|[|])desired config: ') as has_refused,
    coalesce(h.queue_at_risk or h.dropped_since_previous, false) as is_at_risk
  from collector_identity i
  join used c on c.identity_id = i.id
  left join next on next.predecessor_id = c.id
  left join collector_health h on h.identity_id = i.id
  left join ingest_host e on e.host_id = i.identity
  left join config_assignment a on a.identity_id = i.id and a.ended_at is null
  left join collector_config assigned on assigned.id = a.config_id
), host as (
  select *, case
    when is_revoked then 'revoked'
    when heartbeat is null and envelope is null and enrolled_at > now() - interval '15 minutes' then 'enrolling'
    when has_renewal_failed then 'renewal_failed'
    when heartbeat < now() - interval '180 seconds' then 'stale'
    when heartbeat is null and enrolled_at <= now() - interval '15 minutes' then 'stale'
    when is_expiring then 'cert_expiring'
    when has_invalid_config then 'config_invalid'
    when version in ('0.9.0', 'latest') then 'unsupported_version'
    when is_at_risk then 'queue_at_risk'
    else 'healthy' end as state,
  case
    when desired is null then 'no_desired'
    when running is null then 'unknown'
    when running = desired then 'in_sync'
    when running = known_good and has_refused then 'on_last_known_good'
    else 'drifted' end as drift
  from raw
)`;

const statements: Readonly<Record<TruthName, string>> = {
  states: "select state, count(*)::int as hosts from host group by state order by state",
  stale: "select device_id from host where state = 'stale' order by device_id",
  stopped: `select count(*) filter (where stopped)::int as hosts,
      string_agg(distinct version, ' ') filter (where stopped) as version,
      string_agg(distinct platform, ' ') filter (where stopped) as platform
    from (select *, envelope between now() - interval '2 hours' and now() - interval '10 minutes' as stopped from host) h
    where not is_revoked and envelope is not null`,
  never:
    "select device_id from host where not is_revoked and heartbeat is not null and envelope is null order by device_id",
  expiring: `select count(*) filter (where expires <= now() + interval '12 days')::int as expiring
    from host where not is_revoked`,
  versions: "select version, count(*)::int as hosts from host group by version",
  drift: "select drift, count(*)::int as hosts from host where not is_revoked group by drift",
  queues: `select count(*) filter (where is_at_risk)::int as at_risk, count(*) filter (where dropped > 0)::int as dropping
    from host where not is_revoked`,
  host: "select state, identity, version from host where device_id = 'host-104'",
  changes: `select e.actor_display as actor, e.action, h.device_id as host, e.reason_code as reason
    from audit_event e join host h on h.id::text = e.target_id
    where e.actor_type = 'operator' and e.outcome = 'success' and e.occurred_at > now() - interval '1 hour'`,
  refusals: `select action, coalesce(reason_code, reason) as reason, count(*)::int as events from audit_event
    where outcome = 'failure' and occurred_at > now() - interval '1 day' group by 1, 2`,
};
