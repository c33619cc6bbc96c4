CREATE TABLE "host_volume" (
	"host_id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"day_bytes" bigint NOT NULL,
	"usual_bytes" bigint
);
--> statement-breakpoint
CREATE TABLE "volume_day" (
	"host_id" text NOT NULL,
	"kind" text NOT NULL,
	"day" integer NOT NULL,
	"envelopes" bigint NOT NULL,
	"payload_bytes" bigint NOT NULL,
	"hour_envelopes" bigint[],
	"hour_bytes" bigint[],
	CONSTRAINT "volume_day_host_id_day_kind_pk" PRIMARY KEY("host_id","day","kind")
);
--> statement-breakpoint
CREATE TABLE "volume_source" (
	"host_id" text NOT NULL,
	"day" integer NOT NULL,
	"kind" text NOT NULL,
	"source" text NOT NULL,
	"envelopes" bigint NOT NULL,
	"payload_bytes" bigint NOT NULL,
	CONSTRAINT "volume_source_host_id_day_kind_source_pk" PRIMARY KEY("host_id","day","kind","source")
);
--> statement-breakpoint
CREATE TABLE "volume_total" (
	"kind" text NOT NULL,
	"day" integer NOT NULL,
	"envelopes" bigint NOT NULL,
	"payload_bytes" bigint NOT NULL,
	"hour_envelopes" bigint[],
	"hour_bytes" bigint[],
	CONSTRAINT "volume_total_day_kind_pk" PRIMARY KEY("day","kind")
);
--> statement-breakpoint
CREATE INDEX "volume_day_day" ON "volume_day" USING btree ("day");--> statement-breakpoint
CREATE INDEX "volume_day_hours" ON "volume_day" USING btree ("day") WHERE "volume_day"."hour_bytes" is not null;--> statement-breakpoint
CREATE INDEX "volume_source_day" ON "volume_source" USING btree ("day");