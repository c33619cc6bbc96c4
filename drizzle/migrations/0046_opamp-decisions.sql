ALTER TABLE "opamp_agent" ADD COLUMN "report_digest" bigint;--> statement-breakpoint
ALTER TABLE "opamp_agent" ADD COLUMN "desired_config_hash" text;--> statement-breakpoint
ALTER TABLE "opamp_agent" ADD COLUMN "look_at" timestamp (3) with time zone;--> statement-breakpoint
CREATE INDEX "opamp_agent_instance" ON "opamp_agent" USING btree ("instance_uid");