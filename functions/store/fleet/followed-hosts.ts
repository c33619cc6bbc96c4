/** Finds hosts that a change reached and similar ones, with their figures before and after. */
import { type SQL, sql } from "drizzle-orm";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import type { Executor } from "../database/database.ts";
import {
  type ChangeSpan,
  type FollowedHost,
  type FollowedRow,
  followedHostOf,
  hostFigures,
  hoursAround,
  sentAround,
} from "./host-hours.ts";
import { fleetPredicate } from "./predicate.ts";
import { type CountingRules, type FleetRules, hostsOf, staleBefore, timestampAt } from "./rows.ts";

/** As for a wave of a rollout. */
const changedMax = 2000;
const controlMax = 8000;

/** Selects the hosts of a filter as changed, and all others; for `findFollowedHosts`. */
export const hostsOfFilter = (filter: FleetFilter, rules: FleetRules): SQL => sql`
    select identity_id, platform, version, label_set_id, ${fleetPredicate(filter, rules)} as is_changed
    from ${hostsOf(rules)} where revoked_from > ${timestampAt(rules.now)}`;

/**
 * Finds changed hosts, and others on their platforms, each group in random order. Omits hosts without figures from before the change. If an
 * hour has no figures, because core or a host was unavailable, uses those of the adjacent hour.
 */
export const findFollowedHosts = async (
  db: Executor,
  hosts: SQL,
  span: ChangeSpan,
  rules: CountingRules,
): Promise<FollowedHost[]> => {
  const { first, hour } = hoursAround(span.from);
  const chosen = (isChanged: boolean, max: number) => sql`(
      select *, md5(identity_id::text) as lot from hosts where is_changed = ${sql.raw(String(isChanged))}
        and platform in (select platform from hosts where is_changed)
      order by lot limit ${max})`;
  const figuresOf = (hours: SQL) =>
    sql`select figures from fleet_hour where identity_id = c.identity_id and hour = any(${hours})`;
  const next = sql`(select min(hour) from fleet_hour where hour > ${hoursAround(span.until).hour}::int)`;
  const rows = await db.execute<FollowedRow>(sql`
    with hosts as materialized (${hosts}), chosen as (${chosen(true, changedMax)} union all ${chosen(false, controlMax)})
    select not c.is_changed as "isControl", c.platform, c.version, c.label_set_id as "labelSetId",
      f.last_heartbeat_at < ${staleBefore(rules)} as "isSilent", to_json(b.figures) as before, to_json(s.figures) as at_change,
      to_json(a.figures) as since_then, to_json(${hostFigures("f")}) as figures,
      ${sentAround("f", span, rules.now)} as sent
    from chosen c join fleet_status f on f.identity_id = c.identity_id
    cross join lateral (
      ${figuresOf(sql`array[${hour}::int, (select max(hour) from fleet_hour where hour < ${hour}::int)]`)}
        and figures[1] <= ${span.from.getTime()}::bigint order by hour desc limit 1
    ) s
    left join fleet_hour b on b.identity_id = c.identity_id
      and b.hour = (select min(hour) from fleet_hour where hour >= ${first}::int and hour < ${hour}::int)
    left join lateral (${figuresOf(sql`array[${next}, ${next} + 1]`)} order by hour limit 1) a on true
    order by c.lot`);
  return rows.map(followedHostOf);
};
