-- Rejects every change of the audit log and of its hash chain except INSERT, for every role.
CREATE OR REPLACE FUNCTION "refuse_audit_change"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE OR REPLACE TRIGGER "audit_event_append_only" BEFORE UPDATE OR DELETE OR TRUNCATE ON "audit_event"
FOR EACH STATEMENT EXECUTE FUNCTION "refuse_audit_change"();

CREATE OR REPLACE TRIGGER "audit_chain_append_only" BEFORE UPDATE OR DELETE OR TRUNCATE ON "audit_chain"
FOR EACH STATEMENT EXECUTE FUNCTION "refuse_audit_change"();
