CREATE TABLE "ingest_lost_range" (
	"host_id" text NOT NULL,
	"queue_id" "bytea" NOT NULL,
	"from_sequence" bigint NOT NULL,
	"through_sequence" bigint NOT NULL,
	"recorded_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ingest_lost_range_host_id_queue_id_from_sequence_pk" PRIMARY KEY("host_id","queue_id","from_sequence")
);
--> statement-breakpoint
CREATE INDEX "ingest_lost_range_recorded" ON "ingest_lost_range" USING btree ("recorded_at");