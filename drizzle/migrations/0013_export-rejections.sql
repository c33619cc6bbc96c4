CREATE TABLE "export_rejection" (
	"host_id" text NOT NULL,
	"queue_id" "bytea" NOT NULL,
	"after_sequence" bigint NOT NULL,
	"name" text NOT NULL,
	"envelopes" bigint NOT NULL,
	"items" bigint NOT NULL,
	"last_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "export_rejection_host_id_queue_id_after_sequence_name_pk" PRIMARY KEY("host_id","queue_id","after_sequence","name")
);
--> statement-breakpoint
ALTER TABLE "export_dead_letter" ADD COLUMN "rejected_items" bigint;--> statement-breakpoint
CREATE INDEX "export_rejection_last" ON "export_rejection" USING btree ("last_at");