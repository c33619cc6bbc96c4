CREATE TABLE "ingest_queue" (
	"host_id" text NOT NULL,
	"queue_id" "bytea" NOT NULL,
	"first_seen_at" timestamp (3) with time zone NOT NULL,
	"last_seen_at" timestamp (3) with time zone NOT NULL,
	"sends_accounts" boolean NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"ending" text,
	"is_forked" boolean DEFAULT false NOT NULL,
	"changed_at" timestamp (3) with time zone,
	CONSTRAINT "ingest_queue_host_id_queue_id_pk" PRIMARY KEY("host_id","queue_id")
);
--> statement-breakpoint
CREATE INDEX "ingest_queue_open" ON "ingest_queue" USING btree ("last_seen_at") WHERE "ingest_queue"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "ingest_queue_changed" ON "ingest_queue" USING btree ("changed_at") WHERE "ingest_queue"."changed_at" is not null;