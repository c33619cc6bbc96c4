CREATE TABLE "retention_clock" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"seen_at" timestamp (3) with time zone NOT NULL,
	"jumped_from" timestamp (3) with time zone,
	"jumped_at" timestamp (3) with time zone,
	"dropped_on" timestamp (3) with time zone,
	"confirmed_until" timestamp (3) with time zone,
	CONSTRAINT "retention_clock_singleton" CHECK ("retention_clock"."singleton")
);
--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "file_gaps" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "file_gap_bytes" bigint DEFAULT 0 NOT NULL;