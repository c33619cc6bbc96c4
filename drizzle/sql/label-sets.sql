-- The labels of a host: those that it reports, those of its enrollment policy, and those of the policy's rule that admitted its service
-- account token; later ones win. Equal sets are stored once, and hosts refer to them by number. A new set and the hosts that refer to it
-- commit together, and the lock on a known set keeps the job that deletes unused sets away until then: functions/store/fleet/labels.ts.
INSERT INTO "label_set" ("id", "sha256", "labels") VALUES (0, sha256('{}'), '{}') ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION "label_set_of"("wanted" jsonb) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
	known integer;
BEGIN
	IF wanted = '{}' THEN
		RETURN 0;
	END IF;
	-- The text of jsonb is canonical, and labels are ASCII.
	LOOP
		SELECT id INTO known FROM label_set WHERE sha256 = sha256(convert_to(wanted::text, 'UTF8')) FOR KEY SHARE;
		IF known IS NOT NULL THEN
			RETURN known;
		END IF;
		INSERT INTO label_set (sha256, labels) VALUES (sha256(convert_to(wanted::text, 'UTF8')), wanted)
		ON CONFLICT (sha256) DO NOTHING;
	END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION "collector_identity_take_labels"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.label_set_id := label_set_of(coalesce(NEW.reported_labels, '{}')
		|| coalesce((SELECT labels FROM enrollment_policy WHERE id = NEW.policy_id), '{}')
		|| coalesce(NEW.attestation->'labels', '{}'));
	RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER "collector_identity_labels" BEFORE INSERT OR UPDATE OF "reported_labels", "policy_id" ON "collector_identity"
FOR EACH ROW EXECUTE FUNCTION "collector_identity_take_labels"();
