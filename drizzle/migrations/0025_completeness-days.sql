DROP INDEX "completeness_day_incomplete";--> statement-breakpoint
CREATE INDEX "completeness_day_day" ON "completeness_day" USING btree ("day");