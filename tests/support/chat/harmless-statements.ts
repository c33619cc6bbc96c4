/** Test data: statements as models write them, which the SQL tools must accept; one on each line. */
export const harmlessStatements = `
select 1
select count(*) from collectors
select count(*) as hosts from collectors;
SELECT state, COUNT(*) AS hosts FROM collectors GROUP BY state ORDER BY hosts DESC
select state, count(*) filter (where drift = 'drifted') as drifted, count(*) as hosts from collectors group by state order by 1
select * from collectors limit 5
select identity, device_id, state from collectors where state <> 'healthy' order by identity limit 20
select identity, conditions from collectors where 'stale' = any(conditions) order by identity
select unnest(conditions) as condition, count(*) from collectors group by 1 order by 2 desc
select c.platform, c.version, count(*) from collectors as c group by c.platform, c.version having count(*) > 3 order by 3 desc, 1, 2
select platform, count(*) as hosts, round(100.0 * count(*) / sum(count(*)) over (), 1) as percent from collectors group by platform
select version, count(*) from collectors where version not in ('1.4.0', '1.10.2') group by version
select identity, heartbeat_age_seconds / 60 as minutes from collectors where heartbeat_age_seconds > 180 order by heartbeat_age_seconds desc nulls last limit 10
select identity, last_heartbeat_at from collectors where last_heartbeat_at < now() - interval '10 minutes' order by 2 limit 10
select identity, now() - last_heartbeat_at as silent_for from collectors where last_heartbeat_at is not null order by silent_for desc limit 3
select date_trunc('hour', last_heartbeat_at) as hour, count(*) from collectors group by 1 order by 1
select date_trunc('day', enrolled_at)::date as day, count(*) from collectors group by 1 order by 1
select extract(epoch from (certificate_not_after - now()))::bigint as seconds_left from collectors order by 1 limit 5
select identity, certificate_not_after from collectors where certificate_not_after between now() and now() + interval '7 days' order by 2
select identity from collectors where certificate_seconds_left < 7 * 24 * 3600 and successor_id is null
select width_bucket(certificate_seconds_left, 0, 1814400, 6) as bucket, count(*) from collectors group by 1 order by 1
select percentile_cont(0.5) within group (order by heartbeat_age_seconds) as median, max(heartbeat_age_seconds) from collectors
select avg(queue_bytes)::bigint as mean, max(queue_bytes) as most, min(queue_bytes) from collectors where queue_bytes is not null
select identity, queue_bytes, queue_bytes_max, round(100.0 * queue_bytes / nullif(queue_bytes_max, 0), 1) as percent from collectors order by percent desc nulls last limit 10
select coalesce(hostname, device_id) as name from collectors order by name limit 5
select case when queue_bytes > 1000000 then 'large' when queue_bytes > 0 then 'small' else 'empty' end as size, count(*) from collectors group by 1
select drift, string_agg(device_id, ', ' order by device_id) as hosts from collectors where drift <> 'in_sync' group by drift
select array_agg(distinct version order by version) from collectors
select upper(platform), lower(identity), length(device_id), left(identity, 10), split_part(platform, '/', 1) from collectors limit 1
select split_part(platform, '/', 1) as os, count(*) from collectors group by os order by 2 desc
select substring(identity from 'dc-[0-9]+') as site, count(*) from collectors group by 1 order by 1
select regexp_replace(identity, '^https://[^/]+/', '') as path from collectors order by 1 limit 3
select identity from collectors where identity like '%/dc-3/%' and device_id ilike 'HOST-1%' order by 1
select identity from collectors where version ~ '^1[.]4' order by 1 limit 5
select device_id || ' (' || version || ')' as host from collectors order by 1 limit 5
select concat_ws(' ', device_id, version, state) from collectors order by 1 limit 5
with bad as (select * from collectors where state <> 'healthy') select version, count(*) from bad group by version order by 2 desc
with total as (select count(*) as n from collectors), stale as (select count(*) as n from collectors where state = 'stale') select stale.n, total.n, stale.n::numeric / total.n as part from stale, total
with per_version as (select version, count(*) as hosts, count(*) filter (where 'stale' = any(conditions)) as stale from collectors group by 1) select *, rank() over (order by stale desc) as place from per_version order by place
with recent(id) as materialized (select identity_id from heartbeats where forwarder_connected) select count(*) from recent join collectors c on c.identity_id = recent.id
select row_number() over (partition by platform order by queue_bytes desc nulls last) as place, platform, identity from collectors order by 2, 1 limit 10
select * from (select platform, device_id, row_number() over (partition by platform order by queue_bytes desc nulls last, device_id) as place from collectors) ranked where place <= 2
select occurred_at, lag(occurred_at) over (order by occurred_at) as previous, action from audit_events order by occurred_at desc limit 5
select version, count(*), sum(count(*)) over (order by version rows between unbounded preceding and current row) as running from collectors group by version order by version
select first_value(identity) over w, last_value(identity) over w from collectors window w as (partition by platform order by identity) limit 3
select platform, version, count(*) from collectors group by rollup (platform, version) order by 1 nulls last, 2 nulls last
select platform, drift, count(*), grouping(platform, drift) from collectors group by grouping sets ((platform), (drift), ()) order by 4, 1, 2
select c.identity, h.config_errors[1] as first_error from collectors c join heartbeats h using (identity_id) where not h.config_valid
select c.device_id, h.renewal_last_error from collectors c left join heartbeats h on h.identity_id = c.identity_id where c.state = 'renewal_failed'
select c.device_id from collectors c where not exists (select 1 from heartbeats h where h.identity_id = c.identity_id)
select p.name, p.enrollment_count, count(c.identity_id) as hosts from enrollment_policies p left join collectors c on c.policy_id = p.id group by p.id, p.name, p.enrollment_count
select status, count(*) from certificates group by status order by 1
select identity, count(*) as issued, max(issued_at) as newest from certificates group by identity having count(*) > 1 order by 2 desc limit 5
select c.identity, k.not_after from collectors c join lateral (select not_after from certificates k where k.identity_id = c.identity_id order by issued_at desc limit 1) k on true order by 2 limit 5
select config_name, config_hash, count(*) from config_assignments where is_current group by 1, 2
select a.identity, a.assigned_at, a.ended_at, coalesce(a.ended_at, now()) - a.assigned_at as kept from config_assignments a order by 4 desc limit 5
select action, outcome, count(*) from audit_events where occurred_at > now() - interval '24 hours' group by action, outcome order by 3 desc
select actor_display, action, details->>'reason' as reason, details #>> '{a,b}' as deep from audit_events order by occurred_at desc limit 10
select e.action, c.device_id from audit_events e join collectors c on e.target_id = c.identity_id::text order by e.occurred_at desc limit 10
select details ? 'policy_id' as has_policy, jsonb_typeof(details) from audit_events limit 5
select key, count(*) from audit_events, jsonb_each_text(details) as d(key, value) group by key order by 2 desc
select actor_type, min(occurred_at), max(occurred_at), age(max(occurred_at), min(occurred_at)) from audit_events group by actor_type
select g.hour, count(c.identity_id) from generate_series(date_trunc('hour', now()) - interval '5 hours', now(), interval '1 hour') as g(hour) left join collectors c on date_trunc('hour', c.last_heartbeat_at) = g.hour group by g.hour order by g.hour
select n, n * n as square from generate_series(1, 3) as n
select identity from collectors where state = 'stale' union select identity from collectors where drift = 'drifted' order by 1 limit 10
select device_id from collectors except select device_id from heartbeats order by 1
select (select count(*) from collectors where state = 'stale') as stale, (select count(*) from collectors) as all_hosts
select state = 'healthy' as is_healthy, bool_and(forwarder_connected) from collectors group by 1
select to_char(now() at time zone 'Europe/Zurich', 'YYYY-MM-DD HH24:MI') <> '' as formatted
select greatest(1, 2), least(1, 2), abs(-1), ceil(1.2), floor(1.8), round(1.25, 1), 7 % 3, 2 * 10
select identity_id from collectors where identity_id = '01920000-0000-7000-8000-000000000001'::uuid
select distinct on (platform) platform, identity from collectors order by platform, identity
select count(distinct version), count(hostname), sum(dropped_records_total), sum(dead_letters) from collectors
select jsonb_build_object('state', state, 'hosts', count(*)) from collectors group by state order by 1
select make_interval(days => 2) > interval '1 day', current_date - 7 < current_date, current_timestamp is not null
select device_id from collectors where (platform, version) in (('linux/amd64', '1.4.0'), ('linux/arm64', '0.9.0')) order by 1 limit 3
select device_id -- the name
  from collectors /* all of them */ limit 1
select hour, kind, sum(envelopes) as envelopes, sum(payload_bytes) / 1048576 as mib from ingest_hours where hour > now() - interval '24 hours' group by hour, kind order by hour
select c.device_id, i.envelopes from collectors c left join (select identity_id, sum(envelopes) as envelopes from ingest_hours group by 1) i using (identity_id) order by i.envelopes desc nulls last limit 5
select device_id, hour, state, records_short, short_of from incomplete_hours where hour > now() - interval '24 hours' order by records_short desc nulls last limit 10
select sum(complete) as complete, sum(short) as short from completeness_hours where hour > now() - interval '24 hours'
select h.from_at, h.until_at, h.version, h.drift, h.running_config_hash from host_history h where h.device_id = 'host-104' order by h.until_at desc limit 20
select c.device_id, h.version as before, c.version as now from collectors c join host_history h on h.identity_id = c.identity_id where h.until_at > now() - interval '24 hours' and h.version <> c.version limit 20
select device_id, silent_of, from_at, until_at from host_silences where until_at > now() - interval '12 hours' order by until_at - from_at desc limit 10
select device_id, sum(payload_bytes) as payload_bytes from volume_days where day > now() - interval '7 days' group by 1 order by 2 desc limit 10
select day, kind, sum(payload_bytes) / 1048576 as mib from volume_days group by 1, 2 order by 1, 2
select name, owner from inventory where is_expected and not is_enrolled order by name
select c.device_id from collectors c left join inventory i on i.identity_id = c.identity_id where i.name is null and c.revoked_at is null limit 50
select w.name, w.state, w.matching_hosts, w.firing_since, e.kind, e.occurred_at from watches w left join watch_events e on e.watch_id = w.watch_id order by e.occurred_at desc nulls last limit 20
values (1, 'a'), (2, 'b')`
  .trim()
  .split(/\n(?! )/);
