CREATE TABLE "completeness_hour" (
	"hour" timestamp (3) with time zone PRIMARY KEY NOT NULL,
	"hosts" integer[] NOT NULL
);
--> statement-breakpoint
CREATE TABLE "completeness_progress" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"owner" uuid,
	"lease_until" timestamp with time zone,
	"hour" timestamp (3) with time zone,
	"received_before" timestamp (3) with time zone,
	CONSTRAINT "completeness_progress_singleton" CHECK ("completeness_progress"."singleton")
);
--> statement-breakpoint
CREATE INDEX "completeness_day_ranked" ON "completeness_day" USING btree ("day","host_id","incomplete_hours","states") WHERE "completeness_day"."incomplete_hours" > 0;