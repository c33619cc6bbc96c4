CREATE TABLE "ingest_object_damage" (
	"object_id" bigint NOT NULL,
	"nonce" "bytea" NOT NULL,
	"noticed_at" timestamp (3) with time zone NOT NULL,
	"recorded_at" timestamp (3) with time zone,
	"envelopes" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "ingest_object_damage_object_id_nonce_pk" PRIMARY KEY("object_id","nonce")
);
--> statement-breakpoint
ALTER TABLE "ingest_store" ADD COLUMN "checked_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "ingest_store" ADD COLUMN "checked_from" bigint;--> statement-breakpoint
ALTER TABLE "ingest_store" ADD COLUMN "checking_at" timestamp (3) with time zone;--> statement-breakpoint
CREATE INDEX "ingest_object_damage_noted" ON "ingest_object_damage" USING btree ("object_id") WHERE "ingest_object_damage"."recorded_at" is null;