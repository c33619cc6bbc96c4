-- Rejects every change of the log of statements except INSERT, for every role.
CREATE OR REPLACE FUNCTION "refuse_completeness_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the log of statements is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE OR REPLACE TRIGGER "completeness_log_append_only" BEFORE UPDATE OR DELETE OR TRUNCATE ON "completeness_log"
FOR EACH STATEMENT EXECUTE FUNCTION "refuse_completeness_change"();
