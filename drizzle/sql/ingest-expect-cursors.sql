-- Locks the cursors of queues, in one order so that batches cannot deadlock, and raises IC001 unless each is at its expected value and
-- belongs to the expected session; an empty session expects none. Nor may the transaction that moved a cursor last have begun to write
-- after this one: the transaction ids of a queue's rows rise with their sequence, which the export relies on.
-- functions/store/ingest/commit-batch.ts sends it in the middle of a transaction: an error keeps the statements after it, and the commit,
-- from running without another round trip.
CREATE OR REPLACE FUNCTION "expect_ingest_cursors"(hosts text[], queues text[], cursors bigint[], sessions text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF cardinality(hosts) <> (
		-- A row that changed while its lock was awaited is evaluated again, as it is now.
		WITH locked AS MATERIALIZED (
			SELECT ingest_cursor.cursor = expected.cursor AND age(ingest_cursor.xmin) >= 0
				AND (expected.session = '' OR session_id = decode(expected.session, 'hex')) AS is_expected
			FROM unnest(hosts, queues, cursors, sessions) AS expected (host, queue, cursor, session)
			JOIN ingest_cursor ON host_id = expected.host AND queue_id = decode(expected.queue, 'hex')
			ORDER BY host_id COLLATE "C", queue_id FOR UPDATE OF ingest_cursor
		)
		SELECT count(*) FROM locked WHERE is_expected
	) THEN
		RAISE EXCEPTION 'an ingest cursor is not at its expected value' USING ERRCODE = 'IC001';
	END IF;
END
$$;
