-- Finds a part of a name among 100,000 in a millisecond. Where the extension is not installed on the server, or not ours to create, a
-- search reads the table instead: slower, and right. Whoever installs it later makes the same index by hand.
DO $$
BEGIN
	CREATE EXTENSION IF NOT EXISTS "pg_trgm";
	CREATE INDEX "fleet_host_search" ON "fleet_host" USING gin ("search" gin_trgm_ops);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file OR undefined_object THEN
	RAISE NOTICE 'searches of the fleet go without pg_trgm: %', SQLERRM;
END
$$;
