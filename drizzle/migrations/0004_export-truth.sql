CREATE TABLE "export_host_loss" (
	"name" text NOT NULL,
	"host_id" text NOT NULL,
	"envelopes" bigint NOT NULL,
	"reason" text NOT NULL,
	"last_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "export_host_loss_host_id_name_pk" PRIMARY KEY("host_id","name")
);
--> statement-breakpoint
CREATE TABLE "ingest_sink" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"kind" text NOT NULL,
	"changed_at" timestamp (3) with time zone,
	CONSTRAINT "ingest_sink_singleton" CHECK ("ingest_sink"."singleton")
);
--> statement-breakpoint
CREATE TABLE "ingest_stored" (
	"backend" integer PRIMARY KEY NOT NULL,
	"envelopes" bigint NOT NULL
);
--> statement-breakpoint
ALTER TABLE "export_position" ADD COLUMN "passed" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "export_position" ADD COLUMN "stored_before" bigint;--> statement-breakpoint
ALTER TABLE "export_position" ADD COLUMN "system_identifier" text;--> statement-breakpoint
ALTER TABLE "export_position" ADD COLUMN "database_oid" text;--> statement-breakpoint
ALTER TABLE "export_position" ADD COLUMN "timeline" integer;