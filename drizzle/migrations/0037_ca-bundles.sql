CREATE TABLE "ca_bundle" (
	"channel" text NOT NULL,
	"number" integer NOT NULL,
	"sha256" text NOT NULL,
	"pem" text NOT NULL,
	"published_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ca_bundle_channel_number_pk" PRIMARY KEY("channel","number")
);
--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "ingest_ca_bundle" bigint;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "management_ca_bundle" bigint;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "ca_pinned" boolean;--> statement-breakpoint
CREATE INDEX "collector_health_ingest_ca_bundle" ON "collector_health" USING btree ("ingest_ca_bundle") WHERE "collector_health"."ingest_ca_bundle" is not null;--> statement-breakpoint
CREATE INDEX "collector_health_management_ca_bundle" ON "collector_health" USING btree ("management_ca_bundle") WHERE "collector_health"."management_ca_bundle" is not null;