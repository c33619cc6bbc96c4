-- The row of a collector is made of one lookup in each table, written so that no plan can be anything else: a plan made for small or
-- unknown tables is kept by its session, and read whole tables for each row when they had grown. The view and the functions say the
-- same as before.
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
	-- "Less than a quarter" begins a millisecond, the precision of all moments, after the moment with a quarter left. Seconds, not
	-- days, are taken off: they are as long in every time zone.
	greatest(c.not_after - make_interval(secs => extract(epoch FROM c.not_after - c.issued_at)::float8 * 0.25 - 0.001),
		s.not_after)::timestamptz(3) AS expiring_from,
	coalesce(h.queue_bytes, -1) AS queue_bytes,
	coalesce(h.renewal_status = 'failed', false) AS renewal_failed,
	coalesce(NOT h.config_valid, false) AS config_invalid,
	coalesce(h.queue_at_risk OR h.dropped_since_previous, false) AS queue_at_risk,
	fleet_drift(coalesce(a.config_hash, h.desired_config_hash), h.running_config_hash, h.last_known_good_config_hash) AS drift,
	coalesce(h.collector_version, i.collector_version) AS version,
	coalesce(h.platform, i.platform) AS platform,
	i.identity, i.device_id,
	lower(i.identity || CASE WHEN strpos(lower(i.identity), lower(i.device_id)) > 0 THEN '' ELSE E'\n' || i.device_id END) AS search,
	s.id AS successor_id, a.config_hash AS assigned_config_hash
FROM collector_identity i
CROSS JOIN LATERAL (
	-- A revoked certificate is not among the active ones: until then another is.
	SELECT own.*, max(own.not_after) FILTER (WHERE own.status = 'active') OVER () AS active_until
	FROM certificate own WHERE own.identity_id = i.id
	ORDER BY own.first_used_at DESC NULLS LAST, own.issued_at DESC, own.id DESC LIMIT 1
) c
LEFT JOIN LATERAL (SELECT * FROM collector_health WHERE identity_id = i.id LIMIT 1) h ON true
LEFT JOIN LATERAL (SELECT * FROM ingest_host WHERE host_id = i.identity LIMIT 1) e ON true
LEFT JOIN LATERAL (
	SELECT * FROM certificate WHERE predecessor_id = c.id AND status = 'active' AND first_used_at IS NULL LIMIT 1
) s ON true
LEFT JOIN LATERAL (
	SELECT (SELECT config_hash FROM collector_config WHERE id = config_id) FROM config_assignment
	WHERE identity_id = i.id AND ended_at IS NULL LIMIT 1
) a ON true;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "fleet_host_refresh"("ids" uuid[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
	PERFORM FROM (SELECT DISTINCT unnest(ids) AS id ORDER BY id) wanted
	CROSS JOIN LATERAL (SELECT FROM fleet_host WHERE identity_id = wanted.id LIMIT 1 FOR NO KEY UPDATE) locked;
	INSERT INTO fleet_host AS f SELECT facts.* FROM (SELECT DISTINCT unnest(ids) AS id ORDER BY id) wanted
	CROSS JOIN LATERAL (SELECT * FROM fleet_facts WHERE identity_id = wanted.id LIMIT 1) facts
	ON CONFLICT (identity_id) DO UPDATE SET
		certificate_id = excluded.certificate_id, enrolled_at = excluded.enrolled_at,
		last_heartbeat_at = excluded.last_heartbeat_at, last_envelope_at = excluded.last_envelope_at,
		certificate_not_after = excluded.certificate_not_after, revoked_from = excluded.revoked_from,
		expired_from = excluded.expired_from, expiring_from = excluded.expiring_from, queue_bytes = excluded.queue_bytes,
		renewal_failed = excluded.renewal_failed, config_invalid = excluded.config_invalid,
		queue_at_risk = excluded.queue_at_risk, drift = excluded.drift, version = excluded.version,
		platform = excluded.platform, identity = excluded.identity, device_id = excluded.device_id,
		search = excluded.search, successor_id = excluded.successor_id,
		assigned_config_hash = excluded.assigned_config_hash;
END
$$;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "fleet_host_take_heartbeats"() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT identity_id, last_heartbeat_at, queue_bytes, renewal_status = 'failed' AS renewal_failed,
		NOT config_valid AS config_invalid, queue_at_risk OR dropped_since_previous AS queue_at_risk, collector_version,
		platform, desired_config_hash, running_config_hash, last_known_good_config_hash
		FROM changed ORDER BY identity_id
	LOOP
		UPDATE fleet_host SET
			last_heartbeat_at = c.last_heartbeat_at, queue_bytes = c.queue_bytes, renewal_failed = c.renewal_failed,
			config_invalid = c.config_invalid, queue_at_risk = c.queue_at_risk, version = c.collector_version,
			platform = c.platform,
			drift = fleet_drift(coalesce(assigned_config_hash, c.desired_config_hash), c.running_config_hash,
				c.last_known_good_config_hash)
		WHERE identity_id = c.identity_id;
	END LOOP;
	RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "fleet_host_take_envelopes"() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT * FROM (
		SELECT date_trunc('second', last_envelope_at) AS at, (
			SELECT identity_id FROM fleet_host
			WHERE identity = host_id AND last_envelope_at < date_trunc('second', changed.last_envelope_at)
		) AS id FROM changed
	) due WHERE id IS NOT NULL ORDER BY id
	LOOP
		UPDATE fleet_host SET last_envelope_at = c.at WHERE identity_id = c.id;
	END LOOP;
	RETURN NULL;
END
$$;
