-- Copies the time of a host's last envelope into "fleet_status", to the second, so that a host that sends all the time changes its row at
-- most once a second. Rows in the order of ids, each by its key: see fleet-facts.sql and fleet-host-refresh.sql.
CREATE OR REPLACE FUNCTION "fleet_host_take_envelopes"() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	c record;
	-- A core of the previous version reads "fleet_host" alone.
	has_older_core boolean := EXISTS (SELECT FROM core_session
		WHERE reads_status IS NOT TRUE AND received_until > now() - interval '15 seconds');
BEGIN
	FOR c IN SELECT * FROM (
		SELECT date_trunc('second', last_envelope_at) AS at, (
			SELECT identity_id FROM fleet_status
			WHERE identity = host_id AND last_envelope_at < date_trunc('second', changed.last_envelope_at)
		) AS id FROM changed
	) due WHERE id IS NOT NULL ORDER BY id
	LOOP
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
