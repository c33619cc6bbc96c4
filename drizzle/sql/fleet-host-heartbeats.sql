-- Copies heartbeats into "fleet_host". A heartbeat carries all of its columns except the assigned config, which the row has: it replaces
-- the desired config unless core assigned one. A loop with one update by key for each row, in the order of ids: see fleet-facts.sql and
-- fleet-host-refresh.sql.
CREATE OR REPLACE FUNCTION "fleet_host_take_heartbeats"() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT identity_id, last_heartbeat_at, hostname, queue_bytes, queue_bytes_max, dropped_records_total + dead_letters AS lost_records,
		renewal_status = 'failed' AS renewal_failed,
		NOT config_valid AS config_invalid, queue_at_risk OR dropped_since_previous AS queue_at_risk, forwarder_connected,
		collector_version,
		platform, fleet_hash(desired_config_hash) AS desired, fleet_hash(running_config_hash) AS running,
		fleet_hash(last_known_good_config_hash) AS last_known_good,
		coalesce(running_config_since, '-infinity') AS running_config_since,
		coalesce(version_since, last_heartbeat_at) AS version_since, recovered_at,
		fleet_reported_since(last_heartbeat_at, renewal_status = 'failed', renewal_failed_since, NOT config_valid, config_invalid_since,
			queue_at_risk OR dropped_since_previous, queue_at_risk_since) AS reported_since
		FROM changed ORDER BY identity_id
	LOOP
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
			desired_config = CASE WHEN config_assigned_at > '-infinity' THEN desired_config ELSE c.desired END,
			running_config = c.running, last_known_good_config = c.last_known_good,
			drift = fleet_drift(CASE WHEN config_assigned_at > '-infinity' THEN desired_config ELSE c.desired END,
				c.running, c.last_known_good)
		WHERE identity_id = c.identity_id;
	END LOOP;
	RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER "collector_health_first_fleet_host" AFTER INSERT ON "collector_health"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_heartbeats"();

CREATE OR REPLACE TRIGGER "collector_health_fleet_host" AFTER UPDATE ON "collector_health"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_heartbeats"();
