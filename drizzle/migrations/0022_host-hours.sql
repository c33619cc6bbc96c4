CREATE TABLE "fleet_hour" (
	"hour" integer NOT NULL,
	"identity_id" uuid NOT NULL,
	"figures" bigint[] NOT NULL,
	CONSTRAINT "fleet_hour_hour_identity_id_pk" PRIMARY KEY("hour","identity_id")
);
--> statement-breakpoint
CREATE TABLE "rollout_sample" (
	"rollout_id" uuid NOT NULL,
	"wave" integer NOT NULL,
	"identity_id" uuid NOT NULL,
	"is_control" boolean NOT NULL,
	"place" integer NOT NULL,
	"platform" text COLLATE "C" NOT NULL,
	"version" text COLLATE "C" NOT NULL,
	"label_set_id" integer NOT NULL,
	"figures_before" bigint[],
	"figures_at_start" bigint[] NOT NULL,
	"figures_at_soak" bigint[],
	CONSTRAINT "rollout_sample_rollout_id_wave_identity_id_pk" PRIMARY KEY("rollout_id","wave","identity_id")
);
--> statement-breakpoint
ALTER TABLE "fleet_status" ADD COLUMN "rss_bytes" bigint DEFAULT -1 NOT NULL;--> statement-breakpoint
ALTER TABLE "fleet_status" ADD COLUMN "cpu_ms" bigint DEFAULT -1 NOT NULL;--> statement-breakpoint
ALTER TABLE "fleet_status" ADD COLUMN "starts" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "rss_bytes" bigint;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "cpu_ms" bigint;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "starts" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "rollout" ADD COLUMN "stops_if_worse" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "rollout_wave" ADD COLUMN "comparison" text;