-- Functions of the chat's SQL tools in place of PostgreSQL's own of the same names (docs/chat-sql.md): core puts schema "chat" before
-- pg_catalog. PostgreSQL's string_agg and array_agg keep any number of rows in memory; these end the statement beyond 16 KiB, and without
-- hashing one group at a time is collected. Its jsonb_each and jsonb_array_elements keep some memory of each call until the statement ends.

DO $$
BEGIN
	CREATE SCHEMA IF NOT EXISTS "chat";

	CREATE OR REPLACE FUNCTION "chat"."collect_text"(collected text, value text, delimiter text) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function$
	BEGIN
		IF octet_length(collected) + octet_length(delimiter) + octet_length(value) > 16384 OR octet_length(value) > 16384 THEN
			RAISE EXCEPTION 'string_agg collects at most 16 KiB' USING ERRCODE = '54000', HINT = 'Collect fewer rows, or count them';
		END IF;
		RETURN CASE WHEN value IS NULL THEN collected WHEN collected IS NULL THEN value
			ELSE collected || coalesce(delimiter, '') || value END;
	END
	$function$;

	CREATE OR REPLACE FUNCTION "chat"."collect_value"(collected anyarray, value anynonarray) RETURNS anyarray
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function$
	BEGIN
		IF cardinality(collected) >= 1000 OR octet_length(value::text) > 1024
			OR (cardinality(collected) % 32 = 0 AND octet_length(collected::text) > 16384) THEN
			RAISE EXCEPTION 'array_agg collects at most 1,000 values, 16 KiB' USING ERRCODE = '54000', HINT = 'Collect fewer rows, or count them';
		END IF;
		RETURN array_append(collected, value);
	END
	$function$;

	CREATE OR REPLACE FUNCTION "chat"."collect_array"(collected anyarray, value anyarray) RETURNS anyarray
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function$
	BEGIN
		RAISE EXCEPTION 'array_agg collects no arrays' USING ERRCODE = '54000', HINT = 'Use unnest';
	END
	$function$;

	CREATE OR REPLACE FUNCTION "chat"."jsonb_each"(from_json jsonb) RETURNS TABLE (key text, value jsonb)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT k, $1 -> k FROM pg_catalog.jsonb_object_keys($1) k';

	CREATE OR REPLACE FUNCTION "chat"."jsonb_each_text"(from_json jsonb) RETURNS TABLE (key text, value text)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT k, $1 ->> k FROM pg_catalog.jsonb_object_keys($1) k';

	CREATE OR REPLACE FUNCTION "chat"."jsonb_array_elements"(from_json jsonb) RETURNS TABLE (value jsonb)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT $1 -> i FROM pg_catalog.generate_series(0, pg_catalog.jsonb_array_length($1) - 1) i';

	CREATE OR REPLACE FUNCTION "chat"."jsonb_array_elements_text"(from_json jsonb) RETURNS TABLE (value text)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT $1 ->> i FROM pg_catalog.generate_series(0, pg_catalog.jsonb_array_length($1) - 1) i';

	CREATE OR REPLACE AGGREGATE "chat"."string_agg"(text, text) (SFUNC = "chat"."collect_text", STYPE = text);
	CREATE OR REPLACE AGGREGATE "chat"."array_agg"(anynonarray) (SFUNC = "chat"."collect_value", STYPE = anyarray);
	CREATE OR REPLACE AGGREGATE "chat"."array_agg"(anyarray) (SFUNC = "chat"."collect_array", STYPE = anyarray);
EXCEPTION WHEN insufficient_privilege THEN
	-- Core runs without the tools then, and says so (docs/chat-sql.md).
	RAISE NOTICE 'the functions of schema "chat" cannot be made: %', SQLERRM;
END
$$;
