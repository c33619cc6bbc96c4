DROP INDEX "ingest_cursor_age";--> statement-breakpoint
ALTER TABLE "ingest_cursor" SET (fillfactor = 50);
--> statement-breakpoint
ALTER TABLE "ingest_host" SET (fillfactor = 50);
