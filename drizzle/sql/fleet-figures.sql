-- "fleet_status" follows "fleet_host", which follows the tables of collectors, and has the figures of the newest heartbeat. Statuses write
-- "fleet_status" alone (functions/store/fleet/statuses.ts): the last heartbeat only advances, and figures never become older ones.
-- `bun run generate` writes what is between "each" and "end" from proto/management/reported-numbers.ts.

-- An amount in the width of its column; -1 for none.
CREATE OR REPLACE FUNCTION "fleet_figure"("amount" bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
	SELECT coalesce(least(greatest(amount, 0), 2147483647), -1)::integer
$$;

-- The first 16 digits of a hash as a number, whose order is that of hashes with the same first digit; 0 for an unknown one.
CREATE OR REPLACE FUNCTION "fleet_hash_key"("hash" bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN length(hash) < 8 THEN 0 ELSE ('x' || encode(substr(hash, 1, 8), 'hex'))::bit(64)::bigint END
$$;

-- Copies rows of "fleet_host", whose rows of "fleet_status" the caller has locked. A loop with one lookup by key for each row, in the order of
-- ids: see fleet-facts.sql. Its plan needs a nested loop, which a caller may have disabled. Here and in every function that follows the
-- fleet: a plan that is kept would be compiled at each call, for more than it takes to run.
CREATE OR REPLACE FUNCTION "fleet_status_take"("ids" uuid[]) RETURNS void LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = on SET plan_cache_mode = force_generic_plan AS $$
DECLARE
	wanted uuid;
BEGIN
	FOR wanted IN SELECT DISTINCT unnest(ids) AS id ORDER BY id
	LOOP
		INSERT INTO fleet_status AS s (
			identity_id, last_heartbeat_at, queue_bytes, queue_records, queue_oldest_seconds, last_ack_seconds, label_set_id,
			last_envelope_at, revoked_from, expired_from, expiring_from, enrolled_at, renewal_failed, config_invalid, queue_at_risk,
			forwarder_connected, is_losing, certificate_not_after, config_assigned_at, running_config_since, condition_since,
			version_since, recovered_at, last_auth_failure_at, queue_bytes_max, lost_records, report_digest, desired_config_key,
			running_config_key, last_known_good_config_key, drift, version, platform, identity, policy_id, core, subnet,
			/* each process: {column}, */ rss_bytes, cpu_ms, /* end */ starts, agent)
		SELECT
			f.identity_id, f.last_heartbeat_at, f.queue_bytes, fleet_figure(h.queue_records),
			fleet_figure(h.queue_oldest_record_age_seconds), fleet_figure(extract(epoch FROM h.ack_age)::bigint), f.label_set_id,
			f.last_envelope_at, f.revoked_from, f.expired_from, f.expiring_from, f.enrolled_at, f.renewal_failed, f.config_invalid,
			f.queue_at_risk, f.forwarder_connected, coalesce(h.dropped_since_previous, false), f.certificate_not_after,
			f.config_assigned_at, f.running_config_since, f.condition_since, f.version_since, f.recovered_at, f.last_auth_failure_at,
			f.queue_bytes_max, f.lost_records, coalesce(h.digest, 0), fleet_hash_key(f.desired_config),
			fleet_hash_key(f.running_config), fleet_hash_key(f.last_known_good_config), f.drift, f.version, f.platform, f.identity,
			(SELECT policy_id FROM collector_identity WHERE id = f.identity_id), coalesce(h.core, ''), coalesce(h.subnet, ''),
			/* each process: coalesce(h.{column}, -1), */ coalesce(h.rss_bytes, -1), coalesce(h.cpu_ms, -1), /* end */ coalesce(h.starts, 0),
			(SELECT agent FROM collector_identity WHERE id = f.identity_id)
		FROM fleet_host f
		LEFT JOIN LATERAL (
			SELECT queue_records, queue_oldest_record_age_seconds, last_heartbeat_at - forwarder_last_ack_at AS ack_age,
				dropped_since_previous, core, subnet, /* each process: {column}, */ rss_bytes, cpu_ms, /* end */ starts,
				-- A core of the previous version writes reports without a digest.
				CASE WHEN digest_reported_at = last_heartbeat_at THEN report_digest END AS digest
			FROM collector_health WHERE identity_id = f.identity_id LIMIT 1
		) h ON true
		WHERE f.identity_id = wanted
		ON CONFLICT (identity_id) DO UPDATE SET
			last_heartbeat_at = greatest(s.last_heartbeat_at, excluded.last_heartbeat_at),
			(/* each process: {column}, */ rss_bytes, cpu_ms, /* end */
				queue_bytes, queue_records, queue_oldest_seconds, last_ack_seconds, core, subnet) = (
				SELECT /* each process: n.{column}, */ n.rss_bytes, n.cpu_ms, /* end */
					n.queue_bytes, n.queue_records, n.queue_oldest_seconds, n.last_ack_seconds, n.core, n.subnet
				FROM (SELECT (CASE WHEN excluded.last_heartbeat_at < s.last_heartbeat_at THEN s ELSE excluded END).*) n),
			label_set_id = excluded.label_set_id, last_envelope_at = greatest(s.last_envelope_at, excluded.last_envelope_at),
			revoked_from = excluded.revoked_from, expired_from = excluded.expired_from, expiring_from = excluded.expiring_from,
			enrolled_at = excluded.enrolled_at, renewal_failed = excluded.renewal_failed, config_invalid = excluded.config_invalid,
			queue_at_risk = excluded.queue_at_risk, forwarder_connected = excluded.forwarder_connected, is_losing = excluded.is_losing,
			certificate_not_after = excluded.certificate_not_after, config_assigned_at = excluded.config_assigned_at,
			running_config_since = excluded.running_config_since, condition_since = excluded.condition_since,
			version_since = excluded.version_since, recovered_at = excluded.recovered_at,
			last_auth_failure_at = excluded.last_auth_failure_at, queue_bytes_max = excluded.queue_bytes_max,
			lost_records = excluded.lost_records, report_digest = excluded.report_digest,
			desired_config_key = excluded.desired_config_key, running_config_key = excluded.running_config_key,
			last_known_good_config_key = excluded.last_known_good_config_key, drift = excluded.drift,
			version = excluded.version, platform = excluded.platform, identity = excluded.identity, policy_id = excluded.policy_id,
			starts = excluded.starts;
	END LOOP;
END
$$;

-- Records statuses whose report is the stored one, in the order of ids, and returns the hosts of those that it has recorded. The others
-- have another report, or a newer status, or have lost records, or were stale: functions/store/fleet/statuses.ts. By key, whatever a kept
-- plan knew of the table: a join in another order could deadlock.
-- Arrays, since to read JSON takes a quarter of the time of all this. A core of the previous version calls its own definition.
CREATE OR REPLACE FUNCTION "fleet_status_record"("ids" uuid[], "times" timestamptz[], "digests" bigint[], "bytes" bigint[], "records" bigint[],
	"oldest" bigint[], "acks" bigint[], "lost" bigint[], "subnets" text[],
	/* each process: "{name}" bigint[], */ "rss" bigint[], "cpu" bigint[], /* end */ "by_core" text, "stale_before" timestamptz)
RETURNS TABLE ("host" uuid, "has_config" boolean) LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
	RETURN QUERY UPDATE fleet_status f SET
		last_heartbeat_at = n.at, queue_bytes = n.bytes, queue_records = fleet_figure(n.records), queue_oldest_seconds = fleet_figure(n.oldest),
		last_ack_seconds = fleet_figure(n.ack), core = by_core,
		/* each process: {column} = coalesce(n.{name}, -1), */ rss_bytes = coalesce(n.rss, -1), cpu_ms = coalesce(n.cpu, -1), /* end */
		subnet = n.subnet
	FROM (
		SELECT * FROM unnest("ids", "times", "digests", "bytes", "records", "oldest", "acks", "lost",
			/* each process: "{name}", */ "rss", "cpu", /* end */ "subnets")
			AS status (id, at, digest, bytes, records, oldest, ack, lost, /* each process: {name}, */ rss, cpu, /* end */ subnet) ORDER BY id
	) n
	WHERE f.identity_id = n.id AND f.report_digest = n.digest AND f.last_heartbeat_at < n.at AND f.last_heartbeat_at >= stale_before
		AND f.lost_records = n.lost AND NOT f.is_losing
	RETURNING f.identity_id, f.config_assigned_at > '-infinity';
END
$$;

-- Rows that an earlier version wrote.
UPDATE fleet_status SET policy_id = i.policy_id FROM collector_identity i
WHERE i.id = identity_id AND fleet_status.policy_id = '00000000-0000-0000-0000-000000000000';

-- What the report reads of a host. A statement that uses columns of "fleet_status" alone reads no other table.
DROP VIEW IF EXISTS "fleet";
CREATE VIEW "fleet" AS
SELECT s.*, f.certificate_id, f.successor_id, f.device_id, f.hostname, f.search, f.desired_config, f.running_config, f.last_known_good_config
FROM fleet_status s LEFT JOIN fleet_host f ON f.identity_id = s.identity_id;
