/** The hosts of a filter and others like them, with their figures before and after a time. */
import { sql } from "drizzle-orm";
import type { FleetFilter } from "../../../proto/fleet-health/filter.ts";
import type { Executor } from "../database/database.ts";
import {
  type FollowedHost,
  type FollowedRow,
  followedHostOf,
  hostFigures,
  hoursAround,
  sentAround,
} from "./host-hours.ts";
import { fleetPredicate } from "./predicate.ts";
import { type FleetRules, hostsOf, staleBefore, timestampAt } from "./rows.ts";

/** As for a wave of a rollout. */
const changedMax = 2000;
const controlMax = 8000;

/**
 * Finds hosts of a filter, and others on their platforms, each group in an order by lot. Of hosts that sent no heartbeat in the hour of `since`
 * nothing is known, so they are left out.
 */
export const findFollowedHosts = async (
  db: Executor,
  rules: FleetRules,
  { filter, since }: { filter: FleetFilter; since: Date },
): Promise<FollowedHost[]> => {
  const { first, hour } = hoursAround(since);
  const chosen = (isChanged: boolean, max: number) => sql`(
      select *, md5(identity_id::text) as lot from hosts where is_changed = ${sql.raw(String(isChanged))}
        and platform in (select platform from hosts where is_changed)
      order by lot limit ${max})`;
  const rows = await db.execute<FollowedRow>(sql`
    with hosts as materialized (
      select identity_id, platform, version, label_set_id, ${fleetPredicate(filter, rules)} as is_changed
      from ${hostsOf(rules)} where revoked_from > ${timestampAt(rules.now)}
    ), chosen as (${chosen(true, changedMax)} union all ${chosen(false, controlMax)})
    select not c.is_changed as "isControl", c.platform, c.version, c.label_set_id as "labelSetId",
      f.last_heartbeat_at < ${staleBefore(rules)} as "isSilent", to_json(b.figures) as before, to_json(s.figures) as at_change,
      to_json(a.figures) as since_then, to_json(${hostFigures("f")}) as figures,
      ${sentAround("f", since, rules.now)} as sent
    from chosen c join fleet_status f on f.identity_id = c.identity_id
    join fleet_hour s on s.hour = ${hour}::int and s.identity_id = c.identity_id and s.figures[1] <= ${since.getTime()}::bigint
    left join fleet_hour b on b.identity_id = c.identity_id
      and b.hour = (select min(hour) from fleet_hour where hour >= ${first}::int and hour < ${hour}::int)
    left join fleet_hour a on a.hour = ${hour}::int + 1 and a.identity_id = c.identity_id
    order by c.lot`);
  return rows.map(followedHostOf);
};
