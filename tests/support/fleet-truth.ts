import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/**
 * Reads how many hosts are in each state, by the tables of collectors alone. The statement reads neither `fleet_host` nor a view: it is
 * written from docs/fleet-health.md, for a fleet of `seedFleet`, whose unsupported versions it names.
 */
export const readStates = async (sql: SqlClient): Promise<{ state: string; hosts: number }[]> =>
  sql.unsafe(
    `${host} select state, count(*)::int as hosts from host group by state order by state`,
  );

/** One row per enrolled host. */
const host = `with used as (
  select distinct on (identity_id) * from certificate order by identity_id, first_used_at desc nulls last, issued_at desc, id desc
), next as (
  select predecessor_id, max(not_after) as not_after from certificate
  where status = 'active' and first_used_at is null and not_after > now() group by predecessor_id
), raw as (
  select i.identity, i.device_id, i.enrolled_at, i.id, coalesce(h.collector_version, i.collector_version) as version,
    coalesce(h.platform, i.platform) as platform, h.last_heartbeat_at as heartbeat, e.last_envelope_at as envelope,
    i.revoked_at is not null or (c.status = 'revoked' and not exists (
      select from certificate o where o.identity_id = i.id and o.status = 'active' and o.not_after > now())) as is_revoked,
    h.renewal_status is not distinct from 'failed' or (c.not_after <= now() and next.not_after is null) as has_renewal_failed,
    c.not_after - now() < (c.not_after - c.issued_at) / 4 and next.not_after is null as is_expiring,
    h.config_valid is false as has_invalid_config,
    coalesce(h.queue_at_risk or h.dropped_since_previous, false) as is_at_risk
  from collector_identity i
  join used c on c.identity_id = i.id
  left join next on next.predecessor_id = c.id
  left join collector_health h on h.identity_id = i.id
  left join ingest_host e on e.host_id = i.identity
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
    else 'healthy' end as state
  from raw
)`;
