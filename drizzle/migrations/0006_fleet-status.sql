CREATE TABLE "fleet_status" (
	"identity_id" uuid PRIMARY KEY NOT NULL,
	"last_heartbeat_at" timestamp (3) with time zone NOT NULL,
	"queue_bytes" bigint NOT NULL,
	"queue_records" integer NOT NULL,
	"queue_oldest_seconds" integer NOT NULL,
	"last_ack_seconds" integer NOT NULL,
	"label_set_id" integer NOT NULL,
	"last_envelope_at" timestamp (3) with time zone NOT NULL,
	"revoked_from" timestamp (3) with time zone NOT NULL,
	"expired_from" timestamp (3) with time zone NOT NULL,
	"expiring_from" timestamp (3) with time zone NOT NULL,
	"enrolled_at" timestamp (3) with time zone NOT NULL,
	"renewal_failed" boolean NOT NULL,
	"config_invalid" boolean NOT NULL,
	"queue_at_risk" boolean NOT NULL,
	"forwarder_connected" boolean NOT NULL,
	"is_losing" boolean NOT NULL,
	"certificate_not_after" timestamp (3) with time zone NOT NULL,
	"config_assigned_at" timestamp (3) with time zone NOT NULL,
	"running_config_since" timestamp (3) with time zone NOT NULL,
	"condition_since" timestamp (3) with time zone NOT NULL,
	"version_since" timestamp (3) with time zone NOT NULL,
	"recovered_at" timestamp (3) with time zone NOT NULL,
	"last_auth_failure_at" timestamp (3) with time zone NOT NULL,
	"queue_bytes_max" bigint NOT NULL,
	"lost_records" bigint NOT NULL,
	"report_digest" bigint NOT NULL,
	"desired_config_key" bigint NOT NULL,
	"running_config_key" bigint NOT NULL,
	"last_known_good_config_key" bigint NOT NULL,
	"drift" text COLLATE "C" NOT NULL,
	"version" text COLLATE "C" NOT NULL,
	"platform" text COLLATE "C" NOT NULL,
	"identity" text COLLATE "C" NOT NULL
);
--> statement-breakpoint
ALTER TABLE "core_session" ADD COLUMN "reads_status" boolean;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "report_digest" bigint;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "digest_reported_at" timestamp (3) with time zone;--> statement-breakpoint
CREATE UNIQUE INDEX "fleet_status_identity" ON "fleet_status" USING btree ("identity");--> statement-breakpoint
CREATE INDEX "fleet_status_certificate" ON "fleet_status" USING btree ("certificate_not_after","identity_id");--> statement-breakpoint
CREATE INDEX "fleet_status_troubled" ON "fleet_status" USING btree ((case when renewal_failed or config_invalid or queue_at_risk then '-infinity'::timestamptz
  else least(revoked_from, expired_from, expiring_from) end));--> statement-breakpoint
CREATE INDEX "fleet_status_version" ON "fleet_status" USING btree ("version");--> statement-breakpoint
CREATE INDEX "fleet_status_platform" ON "fleet_status" USING btree ("platform");--> statement-breakpoint
CREATE INDEX "fleet_status_label_set" ON "fleet_status" USING btree ("label_set_id");--> statement-breakpoint
CREATE INDEX "fleet_host_device" ON "fleet_host" USING btree ("device_id");--> statement-breakpoint
CREATE INDEX "fleet_host_hostname" ON "fleet_host" USING btree ("hostname");