CREATE TABLE "fleet_history" (
	"identity_id" uuid NOT NULL,
	"until_at" timestamp (3) with time zone NOT NULL,
	"certificate_id" uuid NOT NULL,
	"successor_id" uuid,
	"certificate_not_after" timestamp (3) with time zone NOT NULL,
	"revoked_from" timestamp (3) with time zone NOT NULL,
	"expired_from" timestamp (3) with time zone NOT NULL,
	"expiring_from" timestamp (3) with time zone NOT NULL,
	"config_assigned_at" timestamp (3) with time zone NOT NULL,
	"running_config_since" timestamp (3) with time zone NOT NULL,
	"condition_since" timestamp (3) with time zone NOT NULL,
	"version_since" timestamp (3) with time zone NOT NULL,
	"recovered_at" timestamp (3) with time zone NOT NULL,
	"label_set_id" integer NOT NULL,
	"renewal_failed" boolean NOT NULL,
	"config_invalid" boolean NOT NULL,
	"queue_at_risk" boolean NOT NULL,
	"forwarder_connected" boolean NOT NULL,
	"drift" text COLLATE "C" NOT NULL,
	"version" text COLLATE "C" NOT NULL,
	"platform" text COLLATE "C" NOT NULL,
	"desired_config" "bytea" NOT NULL,
	"running_config" "bytea" NOT NULL,
	"last_known_good_config" "bytea" NOT NULL,
	CONSTRAINT "fleet_history_identity_id_until_at_pk" PRIMARY KEY("identity_id","until_at")
);
--> statement-breakpoint
CREATE TABLE "fleet_sample" (
	"slot" timestamp (3) with time zone PRIMARY KEY NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"states" integer[] NOT NULL,
	"needs_attention" integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE "fleet_silence" (
	"identity_id" uuid NOT NULL,
	"is_of_envelopes" boolean NOT NULL,
	"from_at" timestamp (3) with time zone NOT NULL,
	"until_at" timestamp (3) with time zone NOT NULL,
	"queue_bytes" bigint NOT NULL,
	CONSTRAINT "fleet_silence_identity_id_is_of_envelopes_until_at_pk" PRIMARY KEY("identity_id","is_of_envelopes","until_at")
);
--> statement-breakpoint
CREATE TABLE "fleet_threshold" (
	"from_at" timestamp (3) with time zone PRIMARY KEY NOT NULL,
	"thresholds" jsonb NOT NULL,
	"forwarding_seconds" integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX "fleet_history_until" ON "fleet_history" USING btree ("until_at");--> statement-breakpoint
CREATE INDEX "fleet_history_label_set" ON "fleet_history" USING btree ("label_set_id");--> statement-breakpoint
CREATE INDEX "fleet_silence_until" ON "fleet_silence" USING btree ("until_at");