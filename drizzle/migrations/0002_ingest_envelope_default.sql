-- Never needed while functions/jobs/maintain-ingest-partitions.ts runs ahead of the clock; with it, no row is refused because
-- its day has no partition yet.
CREATE TABLE "ingest_envelope_default" PARTITION OF "ingest_envelope" DEFAULT;
