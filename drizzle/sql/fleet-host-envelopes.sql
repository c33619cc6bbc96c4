-- Copies the time of a host's last envelope into "fleet_status", to the second, so that a host that sends all the time changes its row at
-- most once a second. Rows in the order of ids, each by its key: see fleet-facts.sql and fleet-host-refresh.sql. Records the silence that
-- it ends, if that was longer than the threshold.
CREATE OR REPLACE FUNCTION "fleet_host_take_envelopes"() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
	c record;
	-- A core of the previous version reads "fleet_host" alone. By the key, like every table here: another scan is disabled.
	has_older_core boolean := EXISTS (SELECT FROM core_session
		WHERE id >= '00000000-0000-0000-0000-000000000000' AND reads_status IS NOT TRUE AND received_until > now() - interval '15 seconds');
	-- Null before history begins, so that nothing is recorded.
	silence interval := (SELECT make_interval(secs => forwarding_seconds) FROM fleet_threshold ORDER BY from_at DESC LIMIT 1);
BEGIN
	FOR c IN SELECT date_trunc('second', changed.last_envelope_at) AS at, due.* FROM changed CROSS JOIN LATERAL (
		SELECT identity_id AS id, last_envelope_at AS silent_from FROM fleet_status
		WHERE identity = host_id AND last_envelope_at < date_trunc('second', changed.last_envelope_at) LIMIT 1
	) due ORDER BY id
	LOOP
		IF c.silent_from < c.at - silence THEN
			INSERT INTO fleet_silence (identity_id, is_of_envelopes, from_at, until_at, queue_bytes)
			VALUES (c.id, true, c.silent_from, c.at, -1) ON CONFLICT DO NOTHING;
		END IF;
		UPDATE fleet_status SET last_envelope_at = c.at WHERE identity_id = c.id;
		IF has_older_core THEN
			UPDATE fleet_host SET last_envelope_at = c.at WHERE identity_id = c.id;
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER "ingest_host_first_fleet_host" AFTER INSERT ON "ingest_host"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_envelopes"();

CREATE OR REPLACE TRIGGER "ingest_host_fleet_host" AFTER UPDATE ON "ingest_host"
REFERENCING NEW TABLE AS "changed" FOR EACH STATEMENT EXECUTE FUNCTION "fleet_host_take_envelopes"();
