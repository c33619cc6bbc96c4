-- A trigram index finds a substring among 100,000 hosts in a millisecond. Where the server lacks the extension, or this role may not
-- create it, searches scan the table instead: slower, with the same result. An administrator can create both later with these statements.
DO $$
BEGIN
	CREATE EXTENSION IF NOT EXISTS "pg_trgm";
	CREATE INDEX IF NOT EXISTS "fleet_host_search" ON "fleet_host" USING gin ("search" gin_trgm_ops);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file OR undefined_object THEN
	RAISE NOTICE 'fleet searches run without pg_trgm: %', SQLERRM;
END
$$;
