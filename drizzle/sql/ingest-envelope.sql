-- The telemetry. Partitioned by the day of receipt, so that retention drops a table instead of deleting rows; drizzle-kit cannot express
-- that. Only COPY writes it, and the cursor in "ingest_cursor" keeps duplicates out, so it needs no unique index. A new column goes here
-- too, as ALTER TABLE … ADD COLUMN IF NOT EXISTS: migrations run before the table exists.
CREATE TABLE IF NOT EXISTS "ingest_envelope" (
	"host_id" text NOT NULL,
	"queue_id" bytea NOT NULL,
	"sequence" bigint NOT NULL,
	"kind" text NOT NULL,
	"observed_at" timestamp with time zone,
	"received_at" timestamp with time zone NOT NULL,
	"source" text NOT NULL,
	"attributes" jsonb NOT NULL,
	"payload" bytea NOT NULL
) PARTITION BY RANGE ("received_at");

-- Stores payloads uncompressed: PostgreSQL's default strategy costs 2.6 times the CPU, and telemetry is compressed on the wire anyway.
ALTER TABLE "ingest_envelope" ALTER COLUMN "payload" SET STORAGE EXTERNAL;

-- Accepts rows of a day that has no partition yet. Stays empty while functions/jobs/maintain-ingest-partitions.ts runs.
CREATE TABLE IF NOT EXISTS "ingest_envelope_default" PARTITION OF "ingest_envelope" DEFAULT;
