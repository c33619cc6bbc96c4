CREATE TABLE "fleet_host" (
	"identity_id" uuid PRIMARY KEY NOT NULL,
	"certificate_id" uuid NOT NULL,
	"enrolled_at" timestamp (3) with time zone NOT NULL,
	"last_heartbeat_at" timestamp (3) with time zone NOT NULL,
	"last_envelope_at" timestamp (3) with time zone NOT NULL,
	"certificate_not_after" timestamp (3) with time zone NOT NULL,
	"revoked_from" timestamp (3) with time zone NOT NULL,
	"expired_from" timestamp (3) with time zone NOT NULL,
	"expiring_from" timestamp (3) with time zone NOT NULL,
	"queue_bytes" bigint NOT NULL,
	"renewal_failed" boolean NOT NULL,
	"config_invalid" boolean NOT NULL,
	"queue_at_risk" boolean NOT NULL,
	"drift" text COLLATE "C" NOT NULL,
	"version" text COLLATE "C" NOT NULL,
	"platform" text COLLATE "C" NOT NULL,
	"identity" text COLLATE "C" NOT NULL,
	"device_id" text COLLATE "C" NOT NULL,
	"search" text COLLATE "C" NOT NULL,
	"successor_id" uuid,
	"assigned_config_hash" text COLLATE "C"
);
--> statement-breakpoint
DROP INDEX "collector_health_heartbeat";--> statement-breakpoint
CREATE UNIQUE INDEX "fleet_host_identity" ON "fleet_host" USING btree ("identity");--> statement-breakpoint
CREATE INDEX "fleet_host_certificate" ON "fleet_host" USING btree ("certificate_not_after","identity_id");--> statement-breakpoint
CREATE INDEX "fleet_host_version" ON "fleet_host" USING btree ("version");--> statement-breakpoint
CREATE INDEX "fleet_host_platform" ON "fleet_host" USING btree ("platform");--> statement-breakpoint
ALTER TABLE "fleet_host" SET (fillfactor = 70);
--> statement-breakpoint
-- A heartbeat changes no indexed column any more: with room on its page it stays there.
ALTER TABLE "collector_health" SET (fillfactor = 70);
--> statement-breakpoint
CREATE FUNCTION "fleet_drift"("desired" text, "running" text, "last_known_good" text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN desired IS NULL THEN 'no_desired'
		WHEN running IS NULL THEN 'unknown'
		WHEN running = desired THEN 'in_sync'
		WHEN running = last_known_good THEN 'on_last_known_good'
		ELSE 'drifted'
	END
$$;
--> statement-breakpoint
-- What "fleet_host" holds, from the tables that say so: the columns in its order.
CREATE VIEW "fleet_facts" AS
SELECT i.id AS identity_id, c.id AS certificate_id, i.enrolled_at,
	coalesce(h.last_heartbeat_at, '-infinity') AS last_heartbeat_at,
	coalesce(date_trunc('second', e.last_envelope_at), '-infinity') AS last_envelope_at,
	c.not_after AS certificate_not_after,
	CASE
		WHEN i.revoked_at IS NOT NULL THEN '-infinity'
		WHEN c.status = 'revoked' THEN coalesce(c.other_active_until, '-infinity')
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
	fleet_drift(coalesce(k.config_hash, h.desired_config_hash), h.running_config_hash, h.last_known_good_config_hash) AS drift,
	coalesce(h.collector_version, i.collector_version) AS version,
	coalesce(h.platform, i.platform) AS platform,
	i.identity, i.device_id,
	lower(i.identity || CASE WHEN strpos(lower(i.identity), lower(i.device_id)) > 0 THEN '' ELSE E'\n' || i.device_id END) AS search,
	s.id AS successor_id, k.config_hash AS assigned_config_hash
FROM collector_identity i
LEFT JOIN collector_health h ON h.identity_id = i.id
LEFT JOIN ingest_host e ON e.host_id = i.identity
CROSS JOIN LATERAL (
	SELECT own.*, (
		SELECT max(other.not_after) FROM certificate other
		WHERE other.identity_id = i.id AND other.id <> own.id AND other.status = 'active'
	) AS other_active_until
	FROM certificate own WHERE own.identity_id = i.id
	ORDER BY own.first_used_at DESC NULLS LAST, own.issued_at DESC, own.id DESC LIMIT 1
) c
LEFT JOIN certificate s ON s.predecessor_id = c.id AND s.status = 'active' AND s.first_used_at IS NULL
LEFT JOIN config_assignment a ON a.identity_id = i.id AND a.ended_at IS NULL
LEFT JOIN collector_config k ON k.id = a.config_id;
--> statement-breakpoint
-- Whoever changes rows of "fleet_host" takes them in the order of their ids, so that nobody waits in a circle; and locks them before
-- it reads what they are made of, so that of two at once the later sees what the earlier wrote. Nested loops over indexes are right
-- for a few rows in a large fleet, whatever the planner believed when the tables were small.
CREATE FUNCTION "fleet_host_refresh"("ids" uuid[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
	PERFORM FROM fleet_host WHERE identity_id = ANY (ids) ORDER BY identity_id FOR NO KEY UPDATE;
	INSERT INTO fleet_host AS f SELECT * FROM fleet_facts WHERE identity_id = ANY (ids) ORDER BY identity_id
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
CREATE FUNCTION "fleet_host_refresh_identity"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleet_host_refresh(ARRAY[NEW.id]);
	RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE FUNCTION "fleet_host_refresh_owner"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleet_host_refresh(ARRAY[NEW.identity_id]);
	RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE FUNCTION "fleet_host_refresh_owners"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleet_host_refresh(array_agg(DISTINCT identity_id)) FROM changed HAVING count(*) > 0;
	RETURN NULL;
END
$$;
--> statement-breakpoint
-- A heartbeat says all of its columns itself, but for the assigned config, which the row knows.
CREATE FUNCTION "fleet_host_take_heartbeats"() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
	UPDATE fleet_host f SET
		last_heartbeat_at = c.last_heartbeat_at, queue_bytes = c.queue_bytes, renewal_failed = c.renewal_status = 'failed',
		config_invalid = NOT c.config_valid, queue_at_risk = c.queue_at_risk OR c.dropped_since_previous,
		version = c.collector_version, platform = c.platform,
		drift = fleet_drift(coalesce(f.assigned_config_hash, c.desired_config_hash), c.running_config_hash,
			c.last_known_good_config_hash)
	FROM (SELECT * FROM changed ORDER BY identity_id) c WHERE f.identity_id = c.identity_id;
	RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE FUNCTION "fleet_host_take_envelopes"() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
	UPDATE fleet_host f SET last_envelope_at = c.at FROM (
		SELECT h.identity_id, date_trunc('second', changed.last_envelope_at) AS at
		FROM changed JOIN fleet_host h ON h.identity = changed.host_id
		WHERE h.last_envelope_at < date_trunc('second', changed.last_envelope_at) ORDER BY h.identity_id
	) c WHERE f.identity_id = c.identity_id;
	RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER "collector_identity_fleet_host" AFTER UPDATE OF "revoked_at", "platform", "collector_version" ON "collector_identity"
FOR EACH ROW WHEN (ROW(OLD.revoked_at, OLD.platform, OLD.collector_version) IS DISTINCT FROM ROW(NEW.revoked_at, NEW.platform, NEW.collector_version))
EXECUTE FUNCTION "fleet_host_refresh_identity"();
--> statement-breakpoint
CREATE TRIGGER "certificate_issued_fleet_host" AFTER INSERT ON "certificate"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_refresh_owners"();
--> statement-breakpoint
CREATE TRIGGER "certificate_fleet_host" AFTER UPDATE OF "status", "first_used_at" ON "certificate"
FOR EACH ROW WHEN (ROW(OLD.status, OLD.first_used_at) IS DISTINCT FROM ROW(NEW.status, NEW.first_used_at))
EXECUTE FUNCTION "fleet_host_refresh_owner"();
--> statement-breakpoint
CREATE TRIGGER "config_assignment_fleet_host" AFTER INSERT OR UPDATE ON "config_assignment"
FOR EACH ROW EXECUTE FUNCTION "fleet_host_refresh_owner"();
--> statement-breakpoint
CREATE TRIGGER "collector_health_first_fleet_host" AFTER INSERT ON "collector_health"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_heartbeats"();
--> statement-breakpoint
CREATE TRIGGER "collector_health_fleet_host" AFTER UPDATE ON "collector_health"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_heartbeats"();
--> statement-breakpoint
CREATE TRIGGER "ingest_host_first_fleet_host" AFTER INSERT ON "ingest_host"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_envelopes"();
--> statement-breakpoint
CREATE TRIGGER "ingest_host_fleet_host" AFTER UPDATE ON "ingest_host"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_envelopes"();
--> statement-breakpoint
INSERT INTO "fleet_host" SELECT * FROM "fleet_facts";
