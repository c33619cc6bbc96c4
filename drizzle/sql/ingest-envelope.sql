-- The telemetry that versions before blocks (ingest-block.sql) stored, a row for each envelope: only they write it, and retention drops it
-- with the blocks of its day. A new column goes here too, as ALTER TABLE … ADD COLUMN IF NOT EXISTS: migrations run before the table exists.
CREATE TABLE IF NOT EXISTS "ingest_envelope" (
	"host_id" text NOT NULL,
	"queue_id" bytea NOT NULL,
	"sequence" bigint NOT NULL,
	"kind" text NOT NULL,
	"observed_at" timestamp with time zone,
	"received_at" timestamp with time zone NOT NULL,
	"source" text NOT NULL,
	"attributes" jsonb NOT NULL,
	"payload" bytea NOT NULL,
	"xid" bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
) PARTITION BY RANGE ("received_at");

-- Stores payloads uncompressed: PostgreSQL's default strategy costs 2.6 times the CPU, and telemetry is compressed on the wire anyway.
ALTER TABLE "ingest_envelope" ALTER COLUMN "payload" SET STORAGE EXTERNAL;

-- Accepts rows of a day that has no partition yet. Stays empty while functions/jobs/maintain-ingest-partitions.ts runs.
CREATE TABLE IF NOT EXISTS "ingest_envelope_default" PARTITION OF "ingest_envelope" DEFAULT;

-- The transaction that stored the row: within a queue it rises with the sequence (ingest-expect-cursors.sql). What reads envelopes in the
-- order of their commits goes by it (functions/store/export/read-envelopes.ts, docs/decisions/export.md).
ALTER TABLE "ingest_envelope" ADD COLUMN IF NOT EXISTS "xid" bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;
-- A few kilobytes a gigabyte, and 0.3 µs a row, where a B-tree takes 1.6.
CREATE INDEX IF NOT EXISTS "ingest_envelope_xid" ON "ingest_envelope" USING brin ("xid") WITH (pages_per_range = 256);
