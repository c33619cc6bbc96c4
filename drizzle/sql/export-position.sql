-- Exports of versions up to 0.3.0 read "ingest_envelope" alone, and would move their position past blocks (ingest-block.sql). Those that read
-- both have an owner that begins with "blocks " (functions/store/export/positions.ts).
CREATE OR REPLACE FUNCTION "refuse_export_without_blocks"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'this version reads no blocks of telemetry and would pass over them: export with the version of the newest core'
		USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE OR REPLACE TRIGGER "export_position_reads_blocks" BEFORE UPDATE OF "position", "lease_until" ON "export_position"
FOR EACH ROW WHEN (NEW.stream IS NULL AND NEW.owner IS NOT NULL AND NEW.owner NOT LIKE 'blocks %')
EXECUTE FUNCTION "refuse_export_without_blocks"();
