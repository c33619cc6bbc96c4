ALTER TABLE "fleet_checkpoint" ADD COLUMN "layout" jsonb;--> statement-breakpoint
ALTER TABLE "fleet_checkpoint" ADD COLUMN "lines" "bytea";