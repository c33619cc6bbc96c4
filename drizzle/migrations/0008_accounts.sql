CREATE TABLE "completeness_day" (
	"host_id" text NOT NULL,
	"day" integer NOT NULL,
	"states" "bytea" NOT NULL,
	"details" text,
	"incomplete_hours" smallint NOT NULL,
	"undelivered" integer NOT NULL,
	"xid" bigint,
	CONSTRAINT "completeness_day_host_id_day_pk" PRIMARY KEY("host_id","day")
);
--> statement-breakpoint
CREATE TABLE "ingest_account" (
	"host_id" text NOT NULL,
	"queue_id" "bytea" NOT NULL,
	"number" bigint NOT NULL,
	"sha256" "bytea" NOT NULL,
	"body" "bytea" NOT NULL,
	"signature" "bytea" NOT NULL,
	"refused" text,
	"is_linked" boolean NOT NULL,
	"follows_gap" boolean NOT NULL,
	"from_at" timestamp (3) with time zone NOT NULL,
	"to_at" timestamp (3) with time zone NOT NULL,
	"is_stopped" boolean NOT NULL,
	"last_sequence" bigint NOT NULL,
	"accepted" bigint NOT NULL,
	"is_checked" boolean NOT NULL,
	"stored" bigint NOT NULL,
	"rejected" bigint NOT NULL,
	"discarded" bigint NOT NULL,
	"lost" bigint NOT NULL,
	"missing" bigint NOT NULL,
	"range_digest" "bytea",
	"sink" text NOT NULL,
	"received_at" timestamp (3) with time zone NOT NULL,
	"xid" bigint NOT NULL,
	CONSTRAINT "ingest_account_host_id_queue_id_number_sha256_pk" PRIMARY KEY("host_id","queue_id","number","sha256")
);
--> statement-breakpoint
ALTER TABLE "ingest_cursor" ADD COLUMN "range_stored" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "ingest_cursor" ADD COLUMN "range_rejected" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "ingest_cursor" ADD COLUMN "range_discarded" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "ingest_cursor" ADD COLUMN "range_lost" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "ingest_cursor" ADD COLUMN "range_digest" "bytea";--> statement-breakpoint
ALTER TABLE "ingest_cursor" ADD COLUMN "counted_through" bigint;--> statement-breakpoint
CREATE INDEX "completeness_day_incomplete" ON "completeness_day" USING btree ("day","incomplete_hours") WHERE "completeness_day"."incomplete_hours" > 0;--> statement-breakpoint
CREATE INDEX "completeness_day_undelivered" ON "completeness_day" USING btree ("day") WHERE "completeness_day"."undelivered" <> 0;--> statement-breakpoint
CREATE INDEX "ingest_account_host" ON "ingest_account" USING btree ("host_id","to_at");--> statement-breakpoint
CREATE INDEX "ingest_account_received" ON "ingest_account" USING btree ("received_at");