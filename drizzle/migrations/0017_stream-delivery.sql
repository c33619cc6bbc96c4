ALTER TABLE "completeness_progress" ADD COLUMN "delivered_stream" text;--> statement-breakpoint
ALTER TABLE "completeness_progress" ADD COLUMN "delivered_through" bigint;--> statement-breakpoint
ALTER TABLE "completeness_statement" ADD COLUMN "delivered_stream" text;--> statement-breakpoint
ALTER TABLE "completeness_statement" ADD COLUMN "delivered_through" bigint;--> statement-breakpoint
ALTER TABLE "ingest_account" ADD COLUMN "stream" text;--> statement-breakpoint
ALTER TABLE "ingest_account" ADD COLUMN "stream_end" bigint;--> statement-breakpoint
CREATE INDEX "ingest_account_stream" ON "ingest_account" USING btree ("stream_end") WHERE "ingest_account"."stream" is not null;