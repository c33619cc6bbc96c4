-- The view that "fleet_host" materializes: one row per enrolled collector, columns in the table's order. One index lookup per joined
-- table, written as LATERAL … LIMIT 1 so that no other plan is possible: a session keeps its plpgsql plans, and a plan made while the
-- tables were small would later scan them for every row. See docs/decisions/fleet-rows.md.

-- A hash that is not known is empty.
CREATE OR REPLACE FUNCTION "fleet_hash"("hex" text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT decode(coalesce(hex, ''), 'hex')
$$;

-- The last known good config of a host that reports that it could not use this desired config; else empty: a host that has not applied
-- a new config yet runs the same one.
CREATE OR REPLACE FUNCTION "fleet_fallback"("desired" bytea, "reported_desired" text, "config_valid" boolean, "errors" text[], "last_known_good" text)
RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN config_valid AND errors = '{}' THEN '\x'
		WHEN fleet_hash(reported_desired) IS DISTINCT FROM desired THEN '\x'
		WHEN config_valid AND NOT EXISTS (SELECT FROM unnest(errors) error WHERE starts_with(error, 'desired config: ')) THEN '\x'
		ELSE fleet_hash(last_known_good)
	END
$$;

CREATE OR REPLACE FUNCTION "fleet_drift"("desired" bytea, "running" bytea, "last_known_good" bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN desired = '\x' THEN 'no_desired'
		WHEN running = '\x' THEN 'unknown'
		WHEN running = desired THEN 'in_sync'
		WHEN running = last_known_good THEN 'on_last_known_good'
		ELSE 'drifted'
	END
$$;

-- Since when a heartbeat reports the first by precedence of its conditions. A start that is not known is the heartbeat.
CREATE OR REPLACE FUNCTION "fleet_reported_since"("heartbeat_at" timestamptz, "renewal_failed" boolean, "renewal_failed_since" timestamptz,
	"config_invalid" boolean, "config_invalid_since" timestamptz, "queue_at_risk" boolean, "queue_at_risk_since" timestamptz)
RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN renewal_failed THEN coalesce(renewal_failed_since, heartbeat_at)
		WHEN config_invalid THEN coalesce(config_invalid_since, heartbeat_at)
		WHEN queue_at_risk THEN coalesce(queue_at_risk_since, heartbeat_at)
		ELSE '-infinity'
	END
$$;

-- What a search for a text reads, by the collation of the database, whatever the collation of the columns. Each name once.
CREATE OR REPLACE FUNCTION "fleet_search"("identity" text, "device_id" text, "hostname" text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT lower((identity
		|| CASE WHEN strpos(lower(identity COLLATE "default"), lower(device_id COLLATE "default")) > 0 THEN '' ELSE E'\n' || device_id END
		|| CASE WHEN strpos(lower((identity || E'\n' || device_id) COLLATE "default"), lower(hostname COLLATE "default")) > 0 THEN ''
			ELSE E'\n' || hostname END) COLLATE "default")
$$;

CREATE OR REPLACE VIEW "fleet_facts" AS
SELECT i.id AS identity_id, c.id AS certificate_id, i.enrolled_at,
	coalesce(h.last_heartbeat_at, '-infinity') AS last_heartbeat_at,
	coalesce(date_trunc('second', e.last_envelope_at), '-infinity') AS last_envelope_at,
	c.not_after AS certificate_not_after,
	CASE
		WHEN i.revoked_at IS NOT NULL THEN '-infinity'
		WHEN c.status = 'revoked' THEN coalesce(c.active_until, '-infinity')
		ELSE 'infinity'
	END::timestamptz(3) AS revoked_from,
	greatest(c.not_after, s.not_after) AS expired_from,
	-- "Less than a quarter of the lifetime is left" begins one millisecond, the precision of all timestamps, after exactly a quarter is
	-- left. The interval is in seconds, not days: a second has the same length in every time zone.
	greatest(c.not_after - make_interval(secs => extract(epoch FROM c.not_after - c.issued_at)::float8 * 0.25 - 0.001),
		s.not_after)::timestamptz(3) AS expiring_from,
	coalesce(a.assigned_at, '-infinity') AS config_assigned_at,
	coalesce(h.running_config_since, '-infinity') AS running_config_since,
	CASE
		WHEN i.revoked_at IS NOT NULL THEN i.revoked_at
		WHEN c.status = 'revoked' AND c.active_until IS NULL THEN coalesce(c.revoked_at, i.enrolled_at)
		ELSE coalesce(h.reported_since, '-infinity')
	END::timestamptz(3) AS condition_since,
	coalesce(h.version_since, h.last_heartbeat_at, i.enrolled_at) AS version_since,
	-- A certificate that was issued when its predecessor had begun to expire ended a condition. Greatest ignores null.
	greatest('-infinity', h.recovered_at, (
		SELECT max(late.issued_at) FROM certificate late, LATERAL (
			SELECT not_after, issued_at FROM certificate WHERE id = late.predecessor_id LIMIT 1
		) p
		WHERE late.id IN (c.id, s.id)
			AND late.issued_at >= p.not_after - make_interval(secs => extract(epoch FROM p.not_after - p.issued_at)::float8 * 0.25 - 0.001)
	))::timestamptz(3) AS recovered_at,
	coalesce(i.last_auth_failure_at, '-infinity') AS last_auth_failure_at,
	coalesce(h.queue_bytes, -1) AS queue_bytes,
	coalesce(h.queue_bytes_max, -1) AS queue_bytes_max,
	coalesce(h.dropped_records_total + h.dead_letters, -1) AS lost_records, i.label_set_id,
	coalesce(h.renewal_status = 'failed', false) AS renewal_failed,
	coalesce(NOT h.config_valid, false) AS config_invalid,
	coalesce(h.queue_at_risk OR h.dropped_since_previous, false) AS queue_at_risk,
	coalesce(h.forwarder_connected, false) AS forwarder_connected,
	fleet_drift(fleet_hash(coalesce(a.config_hash, h.desired_config_hash)), fleet_hash(h.running_config_hash),
		fleet_fallback(fleet_hash(coalesce(a.config_hash, h.desired_config_hash)), h.desired_config_hash, h.config_valid, h.config_errors,
			h.last_known_good_config_hash)) AS drift,
	coalesce(h.collector_version, i.collector_version) AS version,
	coalesce(h.platform, i.platform) AS platform,
	i.identity, i.device_id,
	coalesce(h.hostname, i.hostname, '') AS hostname,
	fleet_search(i.identity, i.device_id, coalesce(h.hostname, i.hostname, '')) AS search,
	s.id AS successor_id,
	fleet_hash(coalesce(a.config_hash, h.desired_config_hash)) AS desired_config,
	fleet_hash(h.running_config_hash) AS running_config, fleet_hash(h.last_known_good_config_hash) AS last_known_good_config
FROM collector_identity i
CROSS JOIN LATERAL (
	-- A revoked certificate does not count as active: the row is revoked once the others have expired.
	SELECT own.id, own.status, own.issued_at, own.not_after, own.revoked_at,
		max(own.not_after) FILTER (WHERE own.status = 'active') OVER () AS active_until
	FROM certificate own WHERE own.identity_id = i.id
	ORDER BY own.first_used_at DESC NULLS LAST, own.issued_at DESC, own.id DESC LIMIT 1
) c
LEFT JOIN LATERAL (
	SELECT last_heartbeat_at, hostname, queue_bytes, queue_bytes_max, dropped_records_total, dead_letters, queue_at_risk, dropped_since_previous,
		renewal_status, config_valid, config_errors, collector_version, platform, forwarder_connected, desired_config_hash,
		running_config_hash, last_known_good_config_hash, running_config_since, version_since, recovered_at,
		fleet_reported_since(last_heartbeat_at, renewal_status = 'failed', renewal_failed_since, NOT config_valid, config_invalid_since,
			queue_at_risk OR dropped_since_previous, queue_at_risk_since) AS reported_since
	FROM collector_health WHERE identity_id = i.id LIMIT 1
) h ON true
LEFT JOIN LATERAL (SELECT last_envelope_at FROM ingest_host WHERE host_id = i.identity LIMIT 1) e ON true
LEFT JOIN LATERAL (
	SELECT id, not_after FROM certificate
	WHERE predecessor_id = c.id AND status = 'active' AND first_used_at IS NULL LIMIT 1
) s ON true
LEFT JOIN LATERAL (
	SELECT assigned_at, (SELECT config_hash FROM collector_config WHERE id = config_id) FROM config_assignment
	WHERE identity_id = i.id AND ended_at IS NULL LIMIT 1
) a ON true;
