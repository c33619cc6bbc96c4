-- The only relations that the login role of the chat's SQL tools may read (docs/chat-sql.md). Schema "chat" holds these views and the
-- functions of chat-functions.sql. The views run with the rights of their owner, so the role needs none on the tables. A view holds no
-- token, hash of a token, key, PEM, payload, config text, session or person. functions/chat-sql/ describes every column, and adds what
-- depends on the time: core sends "collectors" and "certificates" as CTEs over "fleet" and "issued_certificates", with the states of
-- functions/store/fleet/conditions.ts. `bun run generate` writes what is between "each" and "end" from proto/management/reported-numbers.ts.

-- Privileges of PUBLIC that core has revoked so that the role does not have them, and granted to the role
-- svc_public_<oid of the database>: for the group of a restored database, and to give them back.
CREATE TABLE IF NOT EXISTS "chat_revoked_grant" ("kind" text NOT NULL, "privilege" text NOT NULL, "object" text NOT NULL,
	PRIMARY KEY ("kind", "privilege", "object"));

DO $$
DECLARE
	former text;
BEGIN
	CREATE SCHEMA IF NOT EXISTS "chat";
	FOR former IN SELECT viewname FROM pg_views WHERE schemaname = 'chat' LOOP
		EXECUTE format('DROP VIEW "chat".%I', former);
	END LOOP;

	-- Outer joins on unique keys: the planner leaves out those whose columns a statement does not use.
	CREATE VIEW "chat"."fleet" AS
	SELECT f.identity_id, f.identity, n.device_id, coalesce(h.hostname, i.hostname) AS hostname, f.platform, f.version, f.agent,
		h.agent_name, l.labels, p.id AS policy_id, p.name AS policy, nullif(f.core, '') AS core,
		f.enrolled_at, i.revoked_at,
		f.last_heartbeat_at, f.last_envelope_at, f.revoked_from, f.expired_from, f.expiring_from, f.renewal_failed, f.config_invalid,
		f.queue_at_risk, f.drift,
		n.certificate_id, c.status AS certificate_status, c.not_after AS certificate_not_after,
		c.renew_after AS certificate_renew_after, s.id AS successor_id, s.not_after AS successor_not_after,
		h.running_config_hash, nullif(encode(n.desired_config, 'hex'), '') AS desired_config_hash,
		h.last_known_good_config_hash, h.config_errors[1] AS config_error,
		/* each number: {read}, */
		nullif(f.queue_records, -1)::bigint AS queue_records,
		nullif(f.queue_bytes, -1)::bigint AS queue_bytes,
		h.queue_bytes_max,
		nullif(f.queue_oldest_seconds, -1)::bigint AS queue_oldest_record_age_seconds,
		h.dropped_records_total,
		h.dead_letters,
		h.queue_forks,
		h.file_gaps,
		h.file_gap_bytes,
		nullif(f.rss_bytes, -1)::bigint AS rss_bytes,
		nullif(f.cpu_ms, -1)::bigint AS cpu_ms,
		/* end */
		f.starts AS restarts, h.forwarder_connected, h.forwarder_last_error, h.renewal_status, h.renewal_last_error,
		h.version_since, h.config_invalid_since, h.queue_at_risk_since, h.renewal_failed_since,
		i.last_auth_failure_at, i.last_auth_failure_reason,
		g.ranges AS gap_ranges, g.records_max AS gap_records_max, g.last_at AS gap_last_at,
		-- Lookups: few hosts are held, and another join makes a plan of several collectors too large for the tools.
		(SELECT b.budget FROM "held_host" b WHERE b.host_id = f.identity) AS held_by_budget,
		(SELECT b.until FROM "held_host" b WHERE b.host_id = f.identity) AS held_until
	FROM "fleet_status" f
	LEFT JOIN "fleet_host" n ON n.identity_id = f.identity_id
	LEFT JOIN "label_set" l ON l.id = f.label_set_id
	LEFT JOIN "collector_identity" i ON i.id = f.identity_id
	LEFT JOIN "enrollment_policy" p ON p.id = i.policy_id
	LEFT JOIN "certificate" c ON c.id = n.certificate_id
	LEFT JOIN "certificate" s ON s.id = n.successor_id
	LEFT JOIN "collector_health" h ON h.identity_id = f.identity_id
	LEFT JOIN "ingest_gap" g ON g.host_id = f.identity;

	CREATE VIEW "chat"."issued_certificates" AS
	SELECT c.id, c.identity_id, i.identity, i.device_id, c.status, c.serial_number,
		encode(c.fingerprint_sha256, 'hex') AS fingerprint_sha256, c.predecessor_id, c.issued_at, c.not_before, c.not_after,
		c.renew_after, c.first_used_at, c.replaced_at, c.revoked_at
	FROM "certificate" c LEFT JOIN "collector_identity" i ON i.id = c.identity_id;

	CREATE VIEW "chat"."heartbeats" AS
	SELECT h.identity_id, i.identity, i.device_id, f.last_heartbeat_at, h.started_at, h.boot_id, h.previous_boot_id, h.previous_boot_at,
		h.hostname, h.platform, h.collector_version, h.collector_commit, h.config_valid, h.config_errors, h.running_config_hash,
		h.desired_config_hash, h.last_known_good_config_hash,
		/* each queue: {read}, */
		nullif(f.queue_records, -1)::bigint AS queue_records,
		nullif(f.queue_bytes, -1)::bigint AS queue_bytes,
		h.queue_bytes_max,
		nullif(f.queue_oldest_seconds, -1)::bigint AS queue_oldest_record_age_seconds,
		h.dropped_records_total,
		h.dead_letters,
		h.queue_forks,
		h.file_gaps,
		h.file_gap_bytes,
		/* end */
		h.queue_at_risk AND i.agent <> 'otelcol' AS queue_at_risk, h.queue_at_risk AND i.agent = 'otelcol' AS component_unhealthy,
		h.reported_conditions, h.dropped_since_previous, h.forwarder_connected,
		CASE WHEN f.last_heartbeat_at = h.last_heartbeat_at THEN h.forwarder_last_ack_at
			WHEN f.last_ack_seconds >= 0 THEN f.last_heartbeat_at - make_interval(secs => f.last_ack_seconds) END AS forwarder_last_ack_at,
		h.forwarder_last_error, h.renewal_status,
		h.renewal_last_attempt_at, h.renewal_next_attempt_at, h.renewal_last_error
	FROM "collector_health" h LEFT JOIN "collector_identity" i ON i.id = h.identity_id
	LEFT JOIN "fleet_status" f ON f.identity_id = h.identity_id;

	CREATE VIEW "chat"."config_assignments" AS
	SELECT a.identity_id, i.identity, i.device_id, a.config_id, g.name AS config_name, g.config_hash, a.assigned_at, a.ended_at,
		a.ended_at IS NULL AS is_current, a.assigned_by
	FROM "config_assignment" a LEFT JOIN "collector_identity" i ON i.id = a.identity_id
	LEFT JOIN "collector_config" g ON g.id = a.config_id;

	CREATE VIEW "chat"."audit_events" AS
	SELECT e.id, l.seq, e.occurred_at, e.actor_type, e.actor_id, e.actor_display, e.action, e.target_type, e.target_id, e.outcome,
		e.reason_code, e.reason, e.remote_addr, e.request_id, e.details
	FROM "audit_event" e LEFT JOIN "audit_chain" l ON l.event_id = e.id;

	CREATE VIEW "chat"."enrollment_policies" AS
	SELECT id, name, description, allowed_identity_prefixes, allowed_platforms, allowed_source_cidrs, certificate_ttl_seconds,
		max_enrollments, max_enrollments_per_hour, enrollment_count, reenrollment, labels, created_at, frozen_at
	FROM "enrollment_policy";

	-- Hosts that are not enrolled may forward too: their host id is their identity.
	CREATE VIEW "chat"."ingest_hours" AS
	SELECT f.identity_id, n.host_id AS identity, f.device_id, n.hour, n.kind, n.envelopes, n.payload_bytes
	FROM "ingest_hour" n LEFT JOIN "fleet_host" f ON f.identity = n.host_id;

	-- States and shortages are numbered in the order of proto/completeness/hour-state.ts; what is short of bytes or items counts no records.
	CREATE VIEW "chat"."incomplete_hours" AS
	SELECT f.identity_id, d.host_id AS identity, f.device_id, to_timestamp(86400.0 * d.day + 3600 * h.at) AS hour,
		(ARRAY['complete', 'undelivered', 'short', 'late', 'silent', 'not_running', 'core_out', 'not_accounted'])[get_byte(d.states, h.at)] AS state,
		(n.note ->> 0)::bigint AS accepted, (n.note ->> 1)::bigint AS stored, n.records_short, n.short_of
	FROM "completeness_day" d CROSS JOIN generate_series(0, 23) h (at)
	LEFT JOIN "fleet_host" f ON f.identity = d.host_id COLLATE "C"
	CROSS JOIN LATERAL (
		SELECT d.details::jsonb -> h.at::text AS note,
			(sum((s.part ->> 1)::bigint) FILTER (WHERE (s.part ->> 0)::int NOT IN (6, 8)))::bigint AS records_short,
			string_agg((ARRAY['account_refused', 'accounts_lost', 'dropped', 'rejected', 'lost_in_restore', 'missing', 'file_gap',
				'export_rejected', 'export_rejected_items', 'unknown'])[(s.part ->> 0)::int + 1], ', ' ORDER BY s.at) AS short_of
		FROM jsonb_array_elements(d.details::jsonb -> h.at::text) WITH ORDINALITY s (part, at) WHERE s.at > 2) n
	WHERE d.incomplete_hours > 0 AND d.day > floor(extract(epoch FROM now()) / 86400)::int - 31 AND get_byte(d.states, h.at) IN (3, 4, 5, 7);

	CREATE VIEW "chat"."completeness_hours" AS
	SELECT hour, hosts[1]::bigint AS complete, hosts[2]::bigint AS undelivered, hosts[3]::bigint AS short, hosts[4]::bigint AS late,
		hosts[5]::bigint AS silent, hosts[6]::bigint AS not_running, hosts[7]::bigint AS core_out, hosts[8]::bigint AS not_accounted
	FROM "completeness_hour";

	-- Where an interval begins is looked up for rows whose column a statement uses.
	CREATE VIEW "chat"."host_history" AS
	SELECT h.identity_id, n.identity, n.device_id, p.until_at AS from_at, h.until_at, h.version, h.platform, l.labels, h.drift,
		nullif(encode(h.running_config, 'hex'), '') AS running_config_hash,
		nullif(encode(h.desired_config, 'hex'), '') AS desired_config_hash,
		h.config_invalid, h.queue_at_risk AND i.agent <> 'otelcol' AS queue_at_risk,
		h.queue_at_risk AND i.agent = 'otelcol' AS component_unhealthy, h.renewal_failed, h.forwarder_connected
	FROM "fleet_history" h LEFT JOIN "fleet_host" n ON n.identity_id = h.identity_id
	LEFT JOIN "collector_identity" i ON i.id = h.identity_id LEFT JOIN "label_set" l ON l.id = h.label_set_id
	LEFT JOIN LATERAL (SELECT b.until_at FROM "fleet_history" b WHERE b.identity_id = h.identity_id AND b.until_at < h.until_at
		ORDER BY b.until_at DESC LIMIT 1) p ON true;

	CREATE VIEW "chat"."host_silences" AS
	SELECT s.identity_id, n.identity, n.device_id, CASE WHEN s.is_of_envelopes THEN 'envelopes' ELSE 'heartbeats' END AS silent_of,
		nullif(s.from_at, '-infinity') AS from_at, s.until_at
	FROM "fleet_silence" s LEFT JOIN "fleet_host" n ON n.identity_id = s.identity_id;

	CREATE VIEW "chat"."volume_days" AS
	SELECT f.identity_id, v.host_id AS identity, f.device_id, to_timestamp(86400.0 * v.day) AS day, v.kind, v.envelopes, v.payload_bytes
	FROM "volume_day" v LEFT JOIN "fleet_host" f ON f.identity = v.host_id;

	-- An entry names a device id or an identity; several hosts may have one device id.
	CREATE VIEW "chat"."inventory" AS
	SELECT h.identity_id, h.identity, h.device_id, n.name, n.owner, n.labels, n.removed_at IS NULL AS is_expected, n.removed_at,
		h.identity_id IS NOT NULL AS is_enrolled
	FROM "inventory_host" n LEFT JOIN (SELECT device_id AS name, identity_id, identity, device_id FROM "fleet_host"
		UNION ALL SELECT identity, identity_id, identity, device_id FROM "fleet_host" WHERE identity <> device_id) h ON h.name = n.name;

	-- Not who receives their messages.
	CREATE VIEW "chat"."watches" AS
	SELECT w.id AS watch_id, w.name, w.filter, w.more_than, w.for_seconds, CASE WHEN w.is_firing THEN 'firing'
			WHEN w.contrary_since IS NOT NULL THEN 'pending' ELSE 'inactive' END AS state,
		w.changed_at, w.firing_since, w.count AS matching_hosts, w.evaluated_at, w.fault, w.silenced_until
	FROM "watch" w;

	CREATE VIEW "chat"."watch_events" AS
	SELECT e.watch_id, w.name, e.at AS occurred_at, e.kind, e.count AS matching_hosts
	FROM "watch_event" e JOIN "watch" w ON w.id = e.watch_id;
EXCEPTION WHEN insufficient_privilege THEN
	-- Core runs without the tools then, and says so (docs/chat-sql.md).
	RAISE NOTICE 'schema "chat" cannot be made: %', SQLERRM;
END
$$;
