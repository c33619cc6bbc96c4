-- Free space on each page of the tables that are updated all the time. No index holds the columns that change, so with room on its page a
-- row stays there (HOT update) and the indexes are not touched.
ALTER TABLE "collector_health" SET (fillfactor = 70);
ALTER TABLE "fleet_host" SET (fillfactor = 90);
ALTER TABLE "fleet_status" SET (fillfactor = 85);
ALTER TABLE "ingest_cursor" SET (fillfactor = 50);
ALTER TABLE "ingest_host" SET (fillfactor = 50);
ALTER TABLE "ingest_hour" SET (fillfactor = 50);
ALTER TABLE "proof_use" SET (fillfactor = 50);
-- Compressed already.
ALTER TABLE "fleet_checkpoint" ALTER COLUMN "body" SET STORAGE EXTERNAL;
ALTER TABLE "fleet_checkpoint" ALTER COLUMN "lines" SET STORAGE EXTERNAL;
