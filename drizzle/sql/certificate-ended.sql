-- Names the transaction that ended a certificate: cores ask for those that ended since they asked last, instead of for each of theirs.
CREATE OR REPLACE FUNCTION "certificate_keep_end"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.ended_xid := pg_current_xact_id()::text::bigint;
	RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER "certificate_ended" BEFORE UPDATE ON "certificate"
FOR EACH ROW WHEN (NEW.status <> 'active') EXECUTE FUNCTION "certificate_keep_end"();
