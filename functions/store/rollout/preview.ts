/** Finds the state of the hosts that a rollout of a config would change, for its preview. */

import { type SQL, sql } from "drizzle-orm";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import {
  desiredErrorPrefix,
  rolledBackPrefix,
  type TargetReason,
} from "#proto/rollout/vocabulary.ts";
import { type AskedHosts, askedHostsOf } from "../config/configs.ts";
import type { Executor } from "../database/database.ts";
import { asIs, orNull, type RowOf, readRows } from "../database/statements.ts";
import {
  type CountingRules,
  type FleetRules,
  heartbeatRecent,
  notRevoked,
} from "../fleet/conditions.ts";
import { candidates } from "./rollouts.ts";

/** Hosts of the filter with the same assigned config; null for none. Only hosts that a rollout can change. */
interface PresentConfig {
  config: { id: string; name: string | null; configHash: string; yaml: string } | null;
  hosts: number;
}

/**
 * Groups the hosts that a rollout can change by their assigned config and counts them: first the group of `configId`, despite the limit,
 * then those with the most hosts.
 */
export const findPresentConfigs = async (
  db: Executor,
  filter: FleetFilter,
  rules: FleetRules,
  { configId, limit }: { configId: string; limit: number },
): Promise<PresentConfig[]> => {
  const rows = await readRows(
    db,
    {
      hosts: Number,
      id: orNull(String),
      name: orNull(String),
      configHash: orNull(String),
      yaml: orNull(String),
    },
    sql`
    select grouped.hosts, c.id, c.name, c.config_hash, c.yaml
    from (
      select a.config_id, count(*)::int as hosts
      from ${candidates(filter, rules)} f
      left join config_assignment a on a.identity_id = f.identity_id and a.ended_at is null
      where f.skipped is null group by 1
    ) grouped left join collector_config c on c.id = grouped.config_id
    order by c.id is not distinct from ${configId}::uuid desc, grouped.hosts desc, c.id limit ${limit}`,
  );
  return rows.map(({ hosts, id, name, configHash, yaml }) => ({
    hosts,
    config:
      id === null || configHash === null || yaml === null ? null : { id, name, configHash, yaml },
  }));
};

/** Returns the hosts of a filter that a rollout can change. */
export const candidateHosts = (db: Executor, filter: FleetFilter, rules: FleetRules): AskedHosts =>
  askedHostsOf(db, sql`(select * from ${candidates(filter, rules)} c where skipped is null)`);

/** A host of the filter that a rollout would skip, and the number of all of them. */
const refusedHost = {
  identityId: String,
  identity: String,
  reason: asIs<TargetReason>,
  hosts: Number,
};

/** Finds the hosts of a filter that a rollout would skip, by their names, and the number of all of them. */
export const findRefusedHosts = async (
  db: Executor,
  filter: FleetFilter,
  rules: FleetRules,
  limit: number,
): Promise<{ rows: Omit<RowOf<typeof refusedHost>, "hosts">[]; hosts: number }> => {
  const rows = await readRows(
    db,
    refusedHost,
    sql`
    select identity_id, identity, skipped as reason, count(*) over () as hosts
    from ${candidates(filter, rules)} c where skipped is not null order by identity limit ${limit}`,
  );
  return { rows: rows.map(({ hosts: _, ...row }) => row), hosts: rows[0]?.hosts ?? 0 };
};

/** Versions of collectors that have rejected a config, with their reports. */
type RefusingVersion = RowOf<typeof refusingVersion>;
const refusingVersion = {
  version: String,
  errors: asIs<string[]>,
  /** The hosts that reject it now. */
  identityIds: asIs<string[]>,
};

const refused = (error: SQL): SQL => sql`starts_with(${error}, ${desiredErrorPrefix})
  and not starts_with(${error}, ${desiredErrorPrefix + rolledBackPrefix})`;

/**
 * Finds the versions whose collectors reject a config now, as their last heartbeats report; with `past: true` also those that did in an
 * earlier rollout. Counts only hosts that core assigned the config to, that are not revoked and, for their present reports, not silent.
 * Omits a version if such a host of it runs the config.
 */
export const findRefusingVersions = async (
  db: Executor,
  configHash: string,
  { rules, past }: { rules: CountingRules; past: boolean },
): Promise<RefusingVersion[]> => {
  const earlier = sql`union all
    select t.failed_version, t.condition_detail, null from collector_config c
    join rollout r on r.config_id = c.id join rollout_target t on t.rollout_id = r.id
    join fleet f on f.identity_id = t.identity_id and ${notRevoked(rules)}
    where c.config_hash = ${configHash} and t.status = 'failed' and t.condition = 'config_invalid'`;
  return readRows(
    db,
    refusingVersion,
    sql`
    select version, to_json((array_agg(distinct error))[1:5]) as errors,
      to_json(array_remove(array_agg(distinct refusing), null)) as identity_ids from (
      select f.version, substr(error, ${desiredErrorPrefix.length + 1}::int) as error, f.identity_id as refusing
      from collector_config c
      join config_assignment a on a.config_id = c.id and a.ended_at is null
      join (select * from fleet where ${notRevoked(rules)} and ${heartbeatRecent(rules)}) f
        on f.identity_id = a.identity_id and f.last_heartbeat_at > a.assigned_at
      join collector_health h on h.identity_id = f.identity_id and h.desired_config_hash = ${configHash}
      cross join lateral unnest(h.config_errors) error
      where c.config_hash = ${configHash} and ${refused(sql`error`)}
      ${past ? earlier : sql``}
    ) found
    where version is not null and not exists (
      select from fleet f
      where f.version = found.version and f.running_config = decode(${configHash}, 'hex') and ${notRevoked(rules)})
    group by 1 order by 1`,
  );
};
