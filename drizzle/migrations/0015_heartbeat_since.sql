ALTER TABLE "collector_health" ADD COLUMN "config_invalid_since" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "queue_at_risk_since" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "renewal_failed_since" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "version_since" timestamp (3) with time zone;