-- Copies heartbeats into "fleet_host". A heartbeat carries all of its columns except the assigned config, which the row has: it replaces
-- the desired config unless core assigned one. A loop with one update by key for each row, in the order of ids: see fleet-facts.sql and
-- fleet-host-refresh.sql. Most heartbeats repeat the previous one except for the time and the queue: these take a short update, because
-- every expression of an update is set up again for each row. No nested loop, since transition tables have no index.
CREATE OR REPLACE FUNCTION "fleet_host_take_heartbeats"() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT n.identity_id, n.last_heartbeat_at, n.hostname, n.queue_bytes, n.queue_bytes_max,
		n.dropped_records_total + n.dead_letters AS lost_records, n.renewal_status = 'failed' AS renewal_failed,
		NOT n.config_valid AS config_invalid, n.queue_at_risk OR n.dropped_since_previous AS queue_at_risk, n.forwarder_connected,
		n.collector_version, n.platform, n.config_valid, n.config_errors, n.desired_config_hash, n.running_config_hash,
		n.last_known_good_config_hash, coalesce(n.running_config_since, '-infinity') AS running_config_since,
		coalesce(n.version_since, n.last_heartbeat_at) AS version_since, n.recovered_at, reported_since,
		ROW(n.hostname, n.renewal_status, n.config_valid, n.config_errors, n.queue_at_risk, n.dropped_since_previous, n.forwarder_connected,
			n.collector_version, n.platform, n.desired_config_hash, n.running_config_hash, n.last_known_good_config_hash,
			n.running_config_since, coalesce(n.version_since, n.last_heartbeat_at), n.recovered_at, reported_since)
		IS NOT DISTINCT FROM
		ROW(o.hostname, o.renewal_status, o.config_valid, o.config_errors, o.queue_at_risk, o.dropped_since_previous, o.forwarder_connected,
			o.collector_version, o.platform, o.desired_config_hash, o.running_config_hash, o.last_known_good_config_hash,
			o.running_config_since, coalesce(o.version_since, o.last_heartbeat_at), o.recovered_at,
			fleet_reported_since(o.last_heartbeat_at, o.renewal_status = 'failed', o.renewal_failed_since, NOT o.config_valid,
				o.config_invalid_since, o.queue_at_risk OR o.dropped_since_previous, o.queue_at_risk_since)) AS is_repeated
		FROM (
			SELECT *, fleet_reported_since(last_heartbeat_at, renewal_status = 'failed', renewal_failed_since, NOT config_valid,
				config_invalid_since, queue_at_risk OR dropped_since_previous, queue_at_risk_since) AS reported_since
			FROM changed
		) n JOIN previous o USING (identity_id) ORDER BY n.identity_id
	LOOP
		PERFORM FROM fleet_status WHERE identity_id = c.identity_id FOR NO KEY UPDATE;
		IF c.is_repeated THEN
			UPDATE fleet_host SET last_heartbeat_at = c.last_heartbeat_at, queue_bytes = c.queue_bytes,
				queue_bytes_max = c.queue_bytes_max, lost_records = c.lost_records
			WHERE identity_id = c.identity_id;
			PERFORM fleet_status_take(ARRAY[c.identity_id]);
			CONTINUE;
		END IF;
		UPDATE fleet_host SET
			last_heartbeat_at = c.last_heartbeat_at, queue_bytes = c.queue_bytes, queue_bytes_max = c.queue_bytes_max,
			lost_records = c.lost_records, hostname = c.hostname,
			search = CASE WHEN hostname = c.hostname THEN search ELSE fleet_search(identity, device_id, c.hostname) END,
			renewal_failed = c.renewal_failed,
			config_invalid = c.config_invalid, queue_at_risk = c.queue_at_risk,
			forwarder_connected = c.forwarder_connected, version = c.collector_version,
			platform = c.platform, running_config_since = c.running_config_since, version_since = c.version_since,
			recovered_at = greatest(recovered_at, c.recovered_at),
			condition_since = CASE WHEN revoked_from = '-infinity' THEN condition_since ELSE c.reported_since END,
			desired_config = CASE WHEN config_assigned_at > '-infinity' THEN desired_config ELSE fleet_hash(c.desired_config_hash) END,
			running_config = fleet_hash(c.running_config_hash),
			last_known_good_config = fleet_hash(c.last_known_good_config_hash),
			drift = fleet_drift(CASE WHEN config_assigned_at > '-infinity' THEN desired_config ELSE fleet_hash(c.desired_config_hash) END,
				fleet_hash(c.running_config_hash),
				fleet_fallback(CASE WHEN config_assigned_at > '-infinity' THEN desired_config ELSE fleet_hash(c.desired_config_hash) END,
					c.desired_config_hash, c.config_valid, c.config_errors, c.last_known_good_config_hash))
		WHERE identity_id = c.identity_id;
		PERFORM fleet_status_take(ARRAY[c.identity_id]);
	END LOOP;
	RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER "collector_health_fleet_host" AFTER UPDATE ON "collector_health"
REFERENCING OLD TABLE AS "previous" NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_heartbeats"();
