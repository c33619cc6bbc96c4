/** Observes the hosts of a rollout by their newest heartbeats. */
import { type SQL, sql } from "drizzle-orm";
import type { StoredBreach } from "#drizzle/schema/rollout.ts";
import {
  desiredErrorPrefix,
  type RolloutCondition,
  rolledBackPrefix,
} from "#proto/rollout/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import { asIs, type RowOf, readOne, readRows, texts, timestamptz } from "../database/statements.ts";
import { column, type Expression } from "../fleet/columns/expression.ts";
import { type CountingRules, enrollingAfter, staleBefore, staleFrom } from "../fleet/conditions.ts";
import { countedAfterColumn, isUncounted } from "../fleet/counted-time.ts";

/** The rollout to observe, and the rules for it. */
export interface Observed extends CountingRules {
  rolloutId: string;
  /** Lowercase hex. */
  configHash: string;
  conditions: readonly RolloutCondition[];
  /** How long after its assignment a host that sends heartbeats must run the config. */
  applySeconds: number;
}

const hashOf = ({ configHash }: Observed): SQL => sql`decode(${configHash}, 'hex')`;

/** Marks the assigned targets whose last heartbeat reports the config, and returns how many. */
export const markApplied = async (tx: Executor, observed: Observed): Promise<number> => {
  const rows = await tx.execute(sql`
    update rollout_target t set status = 'applied', applied_at = greatest(f.running_config_since, t.assigned_at)
    from fleet f
    where t.rollout_id = ${observed.rolloutId}::uuid and t.status = 'assigned' and f.identity_id = t.identity_id
      and f.running_config = ${hashOf(observed)} and not f.config_invalid and f.last_heartbeat_at > t.assigned_at
    returning t.place`);
  return rows.length;
};

/** Skips the targets, failed ones included, that were since revoked or assigned another config, and returns how many. */
export const skipChanged = async (tx: Executor, { rolloutId, now }: Observed): Promise<number> => {
  const rows = await tx.execute(sql`
    update rollout_target t set status = 'skipped',
      reason = case when f.revoked_from <= ${timestamptz(now)} then 'revoked' else 'reassigned' end
    from fleet f, config_assignment a
    where t.rollout_id = ${rolloutId}::uuid and t.status in ('assigned', 'applied', 'failed') and f.identity_id = t.identity_id
      and a.id = t.assignment_id
      and (f.revoked_from <= ${timestamptz(now)} or (a.ended_at is not null and t.status <> 'failed'))
    returning t.place`);
  return rows.length;
};

/** The heartbeat's error that explains why the host does not run this rollout's config. */
const refusal = ({ configHash }: Observed, where: SQL): SQL => sql`left join lateral (
  select error from unnest(h.config_errors) error where h.desired_config_hash = ${configHash} and ${where} limit 1)`;

/** Returns the time until which a host must have applied the config. */
const applyUntilOf = ({ applySeconds, outages }: Observed): Expression =>
  countedAfterColumn(column("t.assigned_at"), applySeconds, outages);

/** Each condition in order of precedence: whether it applies, when it began, and what proves it. */
const conditionRows = (observed: Observed): SQL => {
  const { now, thresholds, outages, applySeconds } = observed;
  const applyUntil = applyUntilOf(observed);
  const staleAt = staleFrom(observed, "f.");
  const queueAtRiskFrom = sql`coalesce(h.queue_at_risk_since, f.last_heartbeat_at)`;
  const reason = (error: SQL) => sql`substr(${error}, ${desiredErrorPrefix.length + 1}::int)`;
  return sql`
    (1, 'rolled_back', rolled.error is not null, f.last_heartbeat_at, ${reason(sql`rolled.error`)}),
    (2, 'rolled_back', t.status = 'applied' and f.running_config <> ${hashOf(observed)}, f.running_config_since,
      'runs another config than the one that it had applied'),
    (3, 'config_invalid', f.config_invalid, coalesce(h.config_invalid_since, f.last_heartbeat_at),
      coalesce(h.config_errors[1], 'the collector reports an invalid config')),
    (4, 'config_invalid', refused.error is not null, f.last_heartbeat_at, ${reason(sql`refused.error`)}),
    (5, 'stale', ${staleAt} < ${timestamptz(now)}, ${staleAt},
      case when f.last_heartbeat_at > '-infinity'
        then 'last heartbeat at ' || to_char(f.last_heartbeat_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
          || case when ${staleAt} > f.last_heartbeat_at + make_interval(secs => ${thresholds.staleAfterSeconds})
            then ', not counting outages of core' else '' end
        else 'no heartbeat since its enrollment' end),
    -- A queue that filled while core could not receive says nothing about the config.
    (6, case f.agent when 'otelcol' then 'component_unhealthy' else 'queue_at_risk' end, f.queue_at_risk and not ${isUncounted(queueAtRiskFrom, outages)}, ${queueAtRiskFrom},
      case when h.reported_conditions <> '{}' then h.reported_conditions[1]
        when h.dropped_since_previous then 'records were dropped or rejected'
        else 'the queue holds ' || f.queue_bytes || ' of ' || h.queue_bytes_max || ' bytes' end),
    (7, 'not_applied', t.status = 'assigned' and f.last_heartbeat_at > ${applyUntil}, ${applyUntil},
      'runs ' || coalesce(nullif(left(encode(f.running_config, 'hex'), 12), ''), 'a config without a hash')
        || ' ' || ${applySeconds}::int || ' s after the assignment')`;
};

/**
 * Marks the assigned and applied targets for which a condition of the gate began since the assignment, with its evidence. Returns how many.
 */
export const markFailed = async (tx: Executor, observed: Observed): Promise<number> => {
  const { rolloutId, conditions, now } = observed;
  const isRollback = sql`starts_with(error, ${desiredErrorPrefix + rolledBackPrefix})`;
  const rows = await tx.execute(sql`
    with found as (
      select t.place, f.version, c.condition, c.began_at, c.detail
      from rollout_target t
      join fleet f on f.identity_id = t.identity_id
      left join collector_health h on h.identity_id = t.identity_id
      ${refusal(observed, isRollback)} rolled on true
      ${refusal(observed, sql`starts_with(error, ${desiredErrorPrefix}) and not ${isRollback}`)} refused on true
      cross join lateral (
        select condition, began_at, detail from (values ${conditionRows(observed)}) as
          c (rank, condition, applies, began_at, detail)
        where applies and began_at >= t.assigned_at and condition = any(${texts(conditions)})
        order by rank limit 1
      ) c
      where t.rollout_id = ${rolloutId}::uuid and t.status in ('assigned', 'applied')
        and (f.running_config <> ${hashOf(observed)} or f.config_invalid or f.queue_at_risk
          or f.last_heartbeat_at < ${staleBefore(observed)})
    )
    update rollout_target t set status = 'failed', failed_at = ${timestamptz(now)}, condition = found.condition,
      condition_began_at = found.began_at, condition_detail = left(found.detail, 500), failed_version = found.version
    from found where t.rollout_id = ${rolloutId}::uuid and t.place = found.place
    returning t.place`);
  return rows.length;
};

/** The targets of a wave that decide whether it may soak. */
type Unsettled = RowOf<typeof unsettled>;
const unsettled = {
  /** Assigned, reachable, and still within the time to apply. */
  waiting: Number,
  applied: Number,
  assigned: Number,
};

/** Counts the targets of a wave that have not settled. Does not wait for a stale host. */
export const countUnsettled = async (
  tx: Executor,
  observed: Observed,
  wave: number,
): Promise<Unsettled> => {
  const { rolloutId } = observed;
  return readOne(
    tx,
    unsettled,
    sql`
    select count(*) filter (where t.status = 'assigned'
        and f.last_heartbeat_at <= ${applyUntilOf(observed)}
        and (f.last_heartbeat_at >= ${staleBefore(observed)}
          or (f.last_heartbeat_at = '-infinity' and f.enrolled_at > ${enrollingAfter(observed)})))
        as waiting,
      count(*) filter (where t.status = 'applied') as applied,
      count(*) filter (where t.status = 'assigned') as assigned
    from rollout_target t cross join lateral (select * from fleet where identity_id = t.identity_id limit 1) f
    where t.rollout_id = ${rolloutId}::uuid and t.wave = ${wave} and t.status in ('assigned', 'applied')`,
  );
};

/** Counts the targets of each wave that failed after `since`. */
export const countFailedSince = (
  tx: Executor,
  { rolloutId }: Pick<Observed, "rolloutId">,
  since: Date,
): Promise<{ wave: number; failed: number }[]> =>
  readRows(
    tx,
    { wave: Number, failed: Number },
    sql`
    select wave, count(*) as failed from rollout_target
    where rollout_id = ${rolloutId}::uuid and status = 'failed' and failed_at > ${timestamptz(since)}
    group by 1 order by 1`,
  );

/** Finds the first targets of a wave that failed after `since`, with the evidence. */
export const findEvidence = (
  tx: Executor,
  {
    rolloutId,
    wave,
    since,
    limit,
  }: { rolloutId: string; wave: number; since: Date; limit: number },
): Promise<StoredBreach["evidence"]> =>
  readRows(
    tx,
    {
      identityId: String,
      identity: String,
      condition: asIs<RolloutCondition>,
      beganAt: (at: string) => new Date(at).toISOString(),
      detail: String,
    },
    sql`
    select t.identity_id, i.identity, t.condition, t.condition_began_at as began_at, t.condition_detail as detail
    from (
      select * from rollout_target
      where rollout_id = ${rolloutId}::uuid and wave = ${wave} and status = 'failed' and failed_at > ${timestamptz(since)}
      order by place limit ${limit}
    ) t join collector_identity i on i.id = t.identity_id order by t.place`,
  );
