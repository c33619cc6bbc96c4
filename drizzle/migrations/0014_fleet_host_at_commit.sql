-- A bulk assignment is one long transaction. It takes the rows of its collectors at the commit, in the order of the changes, so that
-- heartbeats and envelopes of these hosts do not wait for all of it.
DROP TRIGGER "config_assignment_fleet_host" ON "config_assignment";
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER "config_assignment_fleet_host" AFTER INSERT OR UPDATE ON "config_assignment"
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "fleet_host_refresh_owner"();
