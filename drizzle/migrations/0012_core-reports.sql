CREATE TABLE "core_report" (
	"id" uuid PRIMARY KEY NOT NULL,
	"machine" text NOT NULL,
	"version" text NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"reported_at" timestamp (3) with time zone NOT NULL,
	"stopped_at" timestamp (3) with time zone,
	"streams" integer,
	"clock_ahead_ms" integer NOT NULL,
	"checks" jsonb NOT NULL,
	"certificates" jsonb NOT NULL
);
