CREATE TABLE "directory_sync" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"syncs" integer NOT NULL,
	"finished_at" timestamp (3) with time zone NOT NULL,
	"outcome" text NOT NULL,
	"reason_code" text,
	"synced_at" timestamp (3) with time zone,
	"failures" integer NOT NULL,
	"missing_groups" text[] NOT NULL,
	CONSTRAINT "directory_sync_singleton" CHECK ("directory_sync"."singleton")
);
--> statement-breakpoint
ALTER TABLE "person" ADD COLUMN "missed_syncs" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "authentication_identity_person" ON "authentication_identity" USING btree ("user_id");