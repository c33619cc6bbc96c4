/** Stores the hosts with which a wave is compared, and figures of all of them during the wave. */
import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { timestamptz } from "../database/statements.ts";
import { type CountingRules, staleBefore } from "../fleet/conditions.ts";
import {
  type FollowedHost,
  hostFigures,
  hoursAround,
  readFigures,
  sentAround,
} from "../fleet/host-hours.ts";

/** Compared hosts of a wave, and of others: more would make the intervals narrower, and change no relevant verdict. */
const changedMax = 2000;
const controlMax = 8000;

/** A wave of a rollout. */
interface ComparedWave {
  rolloutId: string;
  wave: number;
}

const isOf = ({ rolloutId, wave }: ComparedWave): SQL =>
  sql`rollout_id = ${rolloutId}::uuid and wave = ${wave}::int`;

/**
 * Stores the hosts for the comparison of a wave that starts, and their figures. The others have the platform and version of one of the
 * wave, and are first targets of later waves, then hosts that are no targets; each group in random order. Deletes those of rollouts that
 * have ended.
 */
export const chooseComparedHosts = async (
  tx: Executor,
  { rolloutId, wave }: ComparedWave,
  rules: CountingRules,
) => {
  const { first, hour } = hoursAround(rules.now);
  await tx.execute(sql`
    delete from rollout_sample where rollout_id in (select id from rollout where ended_at is not null) or (${isOf({ rolloutId, wave })})`);
  await tx.execute(sql`
    with alive as materialized (
      select f.identity_id, f.platform, f.version, f.label_set_id, t.wave, t.place, ${hostFigures} as figures
      from fleet_status f left join rollout_target t on t.rollout_id = ${rolloutId}::uuid and t.identity_id = f.identity_id
      where f.last_heartbeat_at >= ${staleBefore(rules)} and f.revoked_from > ${timestamptz(rules.now)}
        and (t.place is null or t.status = 'pending')
    ), changed as (
      select *, false as is_control from alive where wave = ${wave}::int order by place limit ${changedMax}
    ), others as (
      select *, true as is_control from alive
      where (wave is null or wave > ${wave}::int) and (platform, version) in (select platform, version from changed)
      order by place nulls last, md5(${rolloutId} || identity_id::text) limit ${controlMax}
    ), chosen as (
      select *, (row_number() over (order by place nulls last, md5(${rolloutId} || identity_id::text)))::int as lot
      from (select * from changed union all select * from others) both_groups
    )
    insert into rollout_sample (rollout_id, wave, identity_id, is_control, place, platform, version, label_set_id, figures_before, figures_at_start)
    select ${rolloutId}::uuid, ${wave}::int, c.identity_id, c.is_control, c.lot, c.platform, c.version, c.label_set_id, h.figures, c.figures
    from chosen c left join fleet_hour h on h.identity_id = c.identity_id
      and h.hour = (select min(hour) from fleet_hour where hour >= ${first}::int and hour < ${hour}::int)`);
};

/** Stores the figures of these hosts at the start of the soak. */
export const markSoak = async (tx: Executor, { rolloutId, wave }: ComparedWave) => {
  await tx.execute(sql`update rollout_sample s set figures_at_soak = ${hostFigures} from fleet_status f
    where s.rollout_id = ${rolloutId}::uuid and s.wave = ${wave}::int and f.identity_id = s.identity_id`);
};

/**
 * Finds the hosts of a wave's comparison with their figures now, each group in its order. Omits revoked hosts, skipped hosts of the wave,
 * and others that have changed since the wave started.
 */
export const findComparedHosts = (
  tx: Executor,
  { rolloutId, wave, startedAt }: ComparedWave & { startedAt: Date },
  rules: CountingRules,
): Promise<FollowedHost[]> => {
  return tx.execute<FollowedHost>(sql`
    select s.is_control as "isControl", s.platform, s.version, s.label_set_id as "labelSetId", ${readFigures(sql`s.figures_before`)} as before,
      ${readFigures(sql`s.figures_at_start`)} as "atChange",
      ${readFigures(sql`coalesce(s.figures_at_soak, s.figures_at_start)`)} as "sinceThen", ${readFigures(hostFigures)} as now,
      f.last_heartbeat_at < ${staleBefore(rules)} as "isSilent", ${sentAround("f", { from: startedAt, until: startedAt }, rules.now)} as sent
    from rollout_sample s join fleet_status f on f.identity_id = s.identity_id
    left join rollout_target t on t.rollout_id = s.rollout_id and t.identity_id = s.identity_id
    where s.rollout_id = ${rolloutId}::uuid and s.wave = ${wave}::int and f.revoked_from > ${timestamptz(rules.now)}
      and case when s.is_control
        then f.config_assigned_at < ${timestamptz(startedAt)} and f.platform = s.platform and f.version = s.version
          and f.label_set_id = s.label_set_id and coalesce(t.status, 'pending') = 'pending'
        else t.status in ('assigned', 'applied', 'failed') end
    order by s.place`);
};

/** Deletes the hosts of a finished comparison. */
export const deleteComparedHosts = async (tx: Executor, wave: ComparedWave) => {
  await tx.execute(sql`delete from rollout_sample where ${isOf(wave)}`);
};
