-- Keeps what "fleet_host" had of a host, with each change of it. Figures, times of the last heartbeat and envelope, and names have no
-- history. The past ends at the newest event that core has recorded of the host, by the clock of core: the change follows from it.
CREATE OR REPLACE FUNCTION "fleet_history_keep"() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
	-- Of changes at one time the first has what was before them.
	INSERT INTO fleet_history (
		identity_id, until_at,
		certificate_id, successor_id, certificate_not_after, revoked_from, expired_from, expiring_from, config_assigned_at,
		running_config_since, condition_since, version_since, recovered_at, label_set_id, renewal_failed, config_invalid, queue_at_risk,
		forwarder_connected, drift, version, platform, desired_config, running_config, last_known_good_config)
	VALUES (
		OLD.identity_id, greatest(
			NEW.enrolled_at, NEW.last_heartbeat_at, NEW.config_assigned_at,
			(SELECT last_heartbeat_at FROM fleet_status WHERE identity_id = OLD.identity_id),
			(SELECT revoked_at FROM collector_identity WHERE id = OLD.identity_id),
			(SELECT max(greatest(issued_at, first_used_at, replaced_at, revoked_at)) FROM certificate
				WHERE id IN (OLD.certificate_id, OLD.successor_id, NEW.certificate_id, NEW.successor_id)),
			(SELECT ended_at FROM config_assignment WHERE identity_id = OLD.identity_id ORDER BY assigned_at DESC LIMIT 1)),
		OLD.certificate_id, OLD.successor_id, OLD.certificate_not_after, OLD.revoked_from, OLD.expired_from, OLD.expiring_from,
		OLD.config_assigned_at, OLD.running_config_since, OLD.condition_since, OLD.version_since, OLD.recovered_at, OLD.label_set_id,
		OLD.renewal_failed, OLD.config_invalid, OLD.queue_at_risk, OLD.forwarder_connected, OLD.drift, OLD.version, OLD.platform,
		OLD.desired_config, OLD.running_config, OLD.last_known_good_config)
	ON CONFLICT DO NOTHING;
	RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER "fleet_host_history" AFTER UPDATE ON "fleet_host" FOR EACH ROW WHEN (
	ROW(OLD.certificate_id, OLD.successor_id, OLD.certificate_not_after, OLD.revoked_from, OLD.expired_from, OLD.expiring_from,
		OLD.config_assigned_at, OLD.running_config_since, OLD.condition_since, OLD.version_since, OLD.recovered_at, OLD.label_set_id,
		OLD.renewal_failed, OLD.config_invalid, OLD.queue_at_risk, OLD.forwarder_connected, OLD.drift, OLD.version, OLD.platform,
		OLD.desired_config, OLD.running_config, OLD.last_known_good_config)
	IS DISTINCT FROM
	ROW(NEW.certificate_id, NEW.successor_id, NEW.certificate_not_after, NEW.revoked_from, NEW.expired_from, NEW.expiring_from,
		NEW.config_assigned_at, NEW.running_config_since, NEW.condition_since, NEW.version_since, NEW.recovered_at, NEW.label_set_id,
		NEW.renewal_failed, NEW.config_invalid, NEW.queue_at_risk, NEW.forwarder_connected, NEW.drift, NEW.version, NEW.platform,
		NEW.desired_config, NEW.running_config, NEW.last_known_good_config))
EXECUTE FUNCTION "fleet_history_keep"();

-- Keeps by which core and from which subnet the heartbeats of a host came, when they come otherwise.
CREATE OR REPLACE FUNCTION "fleet_connection_keep"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fleet_connection (identity_id, until_at, core, subnet)
	VALUES (OLD.identity_id, NEW.last_heartbeat_at, OLD.core, OLD.subnet) ON CONFLICT DO NOTHING;
	RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER "fleet_status_connection" AFTER UPDATE ON "fleet_status" FOR EACH ROW
WHEN (OLD.core <> NEW.core OR OLD.subnet <> NEW.subnet) EXECUTE FUNCTION "fleet_connection_keep"();
