-- The telemetry: a row is the envelopes of one queue that were received together, encoded as `svc.ingest.v1.Envelopes` and compressed by
-- their sender (docs/protocol.md). Partitioned by the day of receipt, so that retention drops a table instead of deleting rows;
-- drizzle-kit cannot express that. Only COPY writes it, and the cursor in "ingest_cursor" keeps duplicates out, so it needs no unique index.
CREATE TABLE IF NOT EXISTS "ingest_block" (
	"host_id" text NOT NULL,
	"queue_id" bytea NOT NULL,
	"first_sequence" bigint NOT NULL,
	"last_sequence" bigint NOT NULL,
	"envelopes" integer NOT NULL,
	"kinds" text[] NOT NULL,
	"raw_bytes" integer NOT NULL,
	"payload_bytes" integer NOT NULL,
	"observed_from" timestamp with time zone,
	"observed_to" timestamp with time zone,
	"received_at" timestamp with time zone NOT NULL,
	-- SHA-256 of the encoded envelopes before compression.
	"digest" bytea NOT NULL,
	-- As `svc.ingest.v1.BlockEncoding`: 1 none, 2 zstd. 3: the data name a part of an object (functions/store/ingest/object-reference.ts).
	"encoding" smallint NOT NULL,
	"data" bytea NOT NULL,
	-- The transaction that stored the row: within a queue it rises with the sequence (ingest-expect-cursors.sql). What reads blocks in the
	-- order of their commits goes by it (functions/store/export/read-envelopes.ts, docs/decisions/export.md).
	"xid" bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
) PARTITION BY RANGE ("received_at");

-- The data is compressed already.
ALTER TABLE "ingest_block" ALTER COLUMN "data" SET STORAGE EXTERNAL;

-- Accepts rows of a day that has no partition yet. Stays empty while functions/jobs/maintain-ingest-partitions.ts runs.
CREATE TABLE IF NOT EXISTS "ingest_block_default" PARTITION OF "ingest_block" DEFAULT;

CREATE INDEX IF NOT EXISTS "ingest_block_xid" ON "ingest_block" ("xid");
CREATE INDEX IF NOT EXISTS "ingest_block_host" ON "ingest_block" ("host_id", "received_at");
