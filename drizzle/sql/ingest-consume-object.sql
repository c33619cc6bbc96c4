-- Marks a drawn object as stored, in the transaction that stores its blocks; raises IC002 when its name is no longer valid, so that core
-- commits no block of an object that is being deleted.
CREATE OR REPLACE FUNCTION "consume_ingest_object"(object_id bigint, object_nonce bytea, object_bytes bigint, last_received timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	UPDATE ingest_object SET state = 1, changed_at = clock_timestamp(), received_at = last_received, bytes = object_bytes,
		xid = pg_current_xact_id()::text::bigint
	WHERE id = object_id AND nonce = object_nonce AND state = 0;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the name of an object is no longer valid' USING ERRCODE = 'IC002';
	END IF;
END
$$;
