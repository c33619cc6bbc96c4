-- Recomputes rows of "fleet_host" from the view "fleet_facts", after changes of identities, certificates and assignments. Every writer
-- locks the rows of "fleet_status" in the order of identity ids, so that writers cannot deadlock, and locks a row before it reads the facts
-- or writes "fleet_host", so that the later of two writers sees what the earlier one wrote. The insertion names the columns of the view in
-- their order. With a plan for any value, as in every function that follows the fleet: to plan the view for each call takes several times
-- what the call does.

CREATE OR REPLACE FUNCTION "fleet_host_refresh"("ids" uuid[]) RETURNS void LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
	PERFORM FROM (SELECT DISTINCT unnest(ids) AS id ORDER BY id) wanted
	CROSS JOIN LATERAL (SELECT FROM fleet_status WHERE identity_id = wanted.id LIMIT 1 FOR NO KEY UPDATE) locked;
	INSERT INTO fleet_host (
		identity_id, certificate_id, enrolled_at, last_heartbeat_at, last_envelope_at, certificate_not_after, revoked_from, expired_from,
		expiring_from, config_assigned_at, running_config_since, condition_since, version_since, recovered_at, last_auth_failure_at,
		queue_bytes, queue_bytes_max, lost_records, label_set_id, renewal_failed, config_invalid, queue_at_risk, forwarder_connected, drift,
		version, platform, identity, device_id, hostname, search, successor_id, desired_config, running_config, last_known_good_config)
	SELECT facts.*
	FROM (SELECT DISTINCT unnest(ids) AS id ORDER BY id) wanted
	CROSS JOIN LATERAL (SELECT * FROM fleet_facts WHERE identity_id = wanted.id LIMIT 1) facts
	ON CONFLICT (identity_id) DO UPDATE SET
		certificate_id = excluded.certificate_id, enrolled_at = excluded.enrolled_at, last_heartbeat_at = excluded.last_heartbeat_at,
		last_envelope_at = excluded.last_envelope_at, certificate_not_after = excluded.certificate_not_after,
		revoked_from = excluded.revoked_from, expired_from = excluded.expired_from, expiring_from = excluded.expiring_from,
		config_assigned_at = excluded.config_assigned_at, running_config_since = excluded.running_config_since,
		condition_since = excluded.condition_since, version_since = excluded.version_since, recovered_at = excluded.recovered_at,
		last_auth_failure_at = excluded.last_auth_failure_at, queue_bytes = excluded.queue_bytes,
		queue_bytes_max = excluded.queue_bytes_max, lost_records = excluded.lost_records, label_set_id = excluded.label_set_id,
		renewal_failed = excluded.renewal_failed, config_invalid = excluded.config_invalid, queue_at_risk = excluded.queue_at_risk,
		forwarder_connected = excluded.forwarder_connected, drift = excluded.drift, version = excluded.version,
		platform = excluded.platform, identity = excluded.identity, device_id = excluded.device_id, hostname = excluded.hostname,
		search = excluded.search, successor_id = excluded.successor_id, desired_config = excluded.desired_config,
		running_config = excluded.running_config, last_known_good_config = excluded.last_known_good_config;
	PERFORM fleet_status_take(ids);
END
$$;

CREATE OR REPLACE FUNCTION "fleet_host_refresh_identity"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleet_host_refresh(ARRAY[NEW.id]);
	RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION "fleet_host_refresh_owner"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleet_host_refresh(ARRAY[NEW.identity_id]);
	RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION "fleet_host_refresh_owners"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleet_host_refresh(array_agg(DISTINCT identity_id)) FROM changed HAVING count(*) > 0;
	RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER "collector_identity_fleet_host"
AFTER UPDATE OF "revoked_at", "platform", "collector_version", "reported_labels", "policy_id", "hostname", "last_auth_failure_at"
ON "collector_identity"
FOR EACH ROW WHEN (ROW(OLD.revoked_at, OLD.platform, OLD.collector_version, OLD.label_set_id, OLD.policy_id, OLD.hostname,
		OLD.last_auth_failure_at)
	IS DISTINCT FROM ROW(NEW.revoked_at, NEW.platform, NEW.collector_version, NEW.label_set_id, NEW.policy_id, NEW.hostname,
		NEW.last_auth_failure_at))
EXECUTE FUNCTION "fleet_host_refresh_identity"();

CREATE OR REPLACE TRIGGER "certificate_issued_fleet_host" AFTER INSERT ON "certificate"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_refresh_owners"();

-- The first heartbeat of a host; fleet-host-heartbeats.sql copies the others.
CREATE OR REPLACE TRIGGER "collector_health_first_fleet_host" AFTER INSERT ON "collector_health"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_refresh_owners"();

-- Once for all rows of a statement: hosts that connect together share the cost of starting the refresh.
CREATE OR REPLACE FUNCTION "fleet_host_refresh_certified"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleet_host_refresh(array_agg(DISTINCT n.identity_id)) FROM changed n JOIN previous o USING (id)
	WHERE ROW(o.status, o.first_used_at) IS DISTINCT FROM ROW(n.status, n.first_used_at) HAVING count(*) > 0;
	RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER "certificate_fleet_host" AFTER UPDATE ON "certificate"
REFERENCING OLD TABLE AS "previous" NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_refresh_certified"();

-- Deferred: a bulk assignment is one long transaction. It locks the rows of its collectors at the commit, in the order of the changes,
-- so that their heartbeats and envelopes do not wait for all of it. PostgreSQL cannot replace a constraint trigger in place.
DROP TRIGGER IF EXISTS "config_assignment_fleet_host" ON "config_assignment";
CREATE CONSTRAINT TRIGGER "config_assignment_fleet_host" AFTER INSERT OR UPDATE ON "config_assignment"
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "fleet_host_refresh_owner"();

-- Recomputes the rows that an earlier definition of the view left different, 500 hosts in a transaction: the heartbeats of these wait for it.
-- Core calls it after each migration, before it serves. Only "fleet_status" follows statuses and envelopes.
CREATE OR REPLACE PROCEDURE "fleet_host_recompute"() LANGUAGE plpgsql AS $$
DECLARE
	names text := (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
		WHERE attrelid = 'fleet_host'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'last_envelope_at');
	shared text := (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute JOIN pg_attribute f USING (attname)
		WHERE pg_attribute.attrelid = 'fleet_status'::regclass AND f.attrelid = 'fleet_host'::regclass AND f.attnum > 0
			AND NOT f.attisdropped AND attname NOT IN ('last_heartbeat_at', 'last_envelope_at', 'queue_bytes'));
	ids uuid[];
BEGIN
	EXECUTE format('SELECT array_agg(identity_id ORDER BY identity_id)
		FROM (SELECT %1$s FROM fleet_facts EXCEPT SELECT %1$s FROM fleet_host) different', names) INTO ids;
	FOR place IN 1 .. coalesce(cardinality(ids), 0) BY 500 LOOP
		PERFORM fleet_host_refresh(ids[place:place + 499]);
		COMMIT;
	END LOOP;
	EXECUTE format('SELECT array_agg(identity_id ORDER BY identity_id) FROM (
		SELECT %1$s, fleet_hash_key(running_config) FROM fleet_host EXCEPT SELECT %1$s, running_config_key FROM fleet_status) different',
		shared) INTO ids;
	FOR place IN 1 .. coalesce(cardinality(ids), 0) BY 500 LOOP
		PERFORM fleet_status_take(ids[place:place + 499]);
		COMMIT;
	END LOOP;
END
$$;
