CREATE TABLE "ingest_object" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "ingest_object_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"nonce" "bytea" NOT NULL,
	"store_id" integer NOT NULL,
	"state" integer NOT NULL,
	"changed_at" timestamp (3) with time zone NOT NULL,
	"received_at" timestamp (3) with time zone,
	"bytes" bigint,
	CONSTRAINT "ingest_object_id_nonce_pk" PRIMARY KEY("id","nonce")
);
--> statement-breakpoint
CREATE TABLE "ingest_store" (
	"id" integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "ingest_store_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1),
	"location" text NOT NULL,
	CONSTRAINT "ingest_store_location_unique" UNIQUE("location")
);
--> statement-breakpoint
CREATE INDEX "ingest_object_open" ON "ingest_object" USING btree ("state","changed_at") WHERE "ingest_object"."state" <> 1;--> statement-breakpoint
CREATE INDEX "ingest_object_received" ON "ingest_object" USING btree ("received_at") WHERE "ingest_object"."state" = 1;