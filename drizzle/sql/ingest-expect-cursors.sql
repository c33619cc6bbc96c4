-- Raises IC001 unless every queue's cursor is at its expected value and belongs to the expected session; an empty session expects none.
-- functions/store/commit-frames.ts sends it in the middle of a transaction: an error keeps the statements after it, and the commit,
-- from running without another round trip.
CREATE OR REPLACE FUNCTION "expect_ingest_cursors"(hosts text[], queues text[], cursors bigint[], sessions text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF cardinality(hosts) <> (
		SELECT count(*) FROM unnest(hosts, queues, cursors, sessions) AS expected (host, queue, cursor, session)
		JOIN ingest_cursor ON host_id = expected.host AND queue_id = decode(expected.queue, 'hex')
			AND ingest_cursor.cursor = expected.cursor
			AND (expected.session = '' OR session_id = decode(expected.session, 'hex'))
	) THEN
		RAISE EXCEPTION 'an ingest cursor is not at its expected value' USING ERRCODE = 'IC001';
	END IF;
END
$$;
