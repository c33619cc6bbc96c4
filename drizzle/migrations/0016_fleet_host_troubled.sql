-- Finds the rows that are in trouble by themselves, few in most fleets. Only a heartbeat that says of its host what the one before did not
-- changes it. The planner is told at once how few they are.
CREATE INDEX "fleet_host_troubled" ON "fleet_host" USING btree ((case when renewal_failed or config_invalid or queue_at_risk then '-infinity'::timestamptz
  else least(revoked_from, expired_from, expiring_from) end));
--> statement-breakpoint
ANALYZE "fleet_host";
