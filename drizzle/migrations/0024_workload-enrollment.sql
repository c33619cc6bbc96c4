ALTER TABLE "collector_identity" ADD COLUMN "attestation" jsonb;--> statement-breakpoint
ALTER TABLE "bootstrap_token" ADD COLUMN "attestation" jsonb;--> statement-breakpoint
ALTER TABLE "enrollment_policy" ADD COLUMN "workload" jsonb;--> statement-breakpoint
CREATE INDEX "bootstrap_token_unused" ON "bootstrap_token" USING btree ("expires_at") WHERE "bootstrap_token"."attestation" is not null and "bootstrap_token"."use_count" = 0;