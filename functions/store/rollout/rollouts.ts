import { and, count, desc, eq, inArray, isNull, lt, type SQL, sql } from "drizzle-orm";
import { collectorConfig } from "#drizzle/schema/config.ts";
import { rollout, rolloutTarget, rolloutWave } from "#drizzle/schema/rollout.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { type RolloutState, type TargetStatus, targetStatuses } from "#proto/rollout/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  firstRow,
  hasRows,
  inserterOf,
  lockerOf,
  type Paged,
  type PageRequest,
  paged,
  updaterOf,
} from "../database/statements.ts";
import { fleetPredicate } from "../fleet/predicate.ts";
import { type FleetRules, timestampAt } from "../fleet/rows.ts";

/** A rollout's row. */
export type RolloutRow = typeof rollout.$inferSelect;

/** A wave's row. */
export type WaveRow = typeof rolloutWave.$inferSelect;

/** A wave, and how many of its reverted targets had failed. */
export interface DescribedWave extends WaveRow {
  revertedFailed: number;
}

/** A rollout with its waves in order, and the config that it assigns. */
export interface DescribedRollout extends RolloutRow {
  configName: string | null;
  configHash: string;
  waves: DescribedWave[];
}

// Any constant works if all cores of a database use the same.
const creationLockKey = 5_518_204_966_731_204n;

/** Waits for the lock under which rollouts are created, and holds it until the transaction ends: so two that share hosts see each other. */
export const lockRolloutCreation = async (tx: Executor): Promise<void> => {
  await tx.execute(sql`select pg_advisory_xact_lock(${creationLockKey.toString()}::bigint)`);
};

/** Inserts a rollout. */
export const insertRollout = inserterOf(rollout);

/** Inserts the waves of a rollout. */
export const insertWaves = async (tx: Executor, rows: readonly WaveRow[]): Promise<void> => {
  await tx.insert(rolloutWave).values([...rows]);
};

/** Finds a rollout and locks its row until the transaction ends. */
export const lockRollout = lockerOf(rollout);

/** Changes a rollout. */
export const updateRollout = updaterOf(rollout);

/** Finds the waves of a rollout in order. */
export const findWaves = (db: Executor, rolloutId: string): Promise<WaveRow[]> =>
  db
    .select()
    .from(rolloutWave)
    .where(eq(rolloutWave.rolloutId, rolloutId))
    .orderBy(rolloutWave.number);

/** Changes a wave. */
export const updateWave = async (
  tx: Executor,
  { rolloutId, number }: Pick<WaveRow, "rolloutId" | "number">,
  change: Partial<WaveRow>,
): Promise<void> => {
  await tx
    .update(rolloutWave)
    .set(change)
    .where(and(eq(rolloutWave.rolloutId, rolloutId), eq(rolloutWave.number, number)));
};

/**
 * Pauses the rollouts of a restored database that would assign a config: they may have been stopped since the backup. Returns their ids.
 */
export const pauseRestoredRollouts = async (tx: Executor, updatedAt: Date): Promise<string[]> => {
  const change = {
    state: "paused",
    reasonCode: "database_restored",
    reason: null,
    updatedAt,
  } as const;
  const assigns = inArray(rollout.state, ["running", "soaking"]);
  const rows = await tx.update(rollout).set(change).where(assigns).returning({ id: rollout.id });
  return rows.map(({ id }) => id);
};

/** Finds the ids of the rollouts that have not ended, oldest first. */
export const findOpenRollouts = async (db: Executor): Promise<string[]> => {
  const rows = await db
    .select({ id: rollout.id })
    .from(rollout)
    .where(isNull(rollout.endedAt))
    .orderBy(rollout.id);
  return rows.map(({ id }) => id);
};

/** Counts the rollouts that have not ended; a state without one is absent. */
export const countOpenRollouts = async (
  db: Executor,
): Promise<ReadonlyMap<RolloutState, number>> => {
  const rows = await db
    .select({ state: rollout.state, count: count() })
    .from(rollout)
    .where(isNull(rollout.endedAt))
    .groupBy(rollout.state);
  return new Map(rows.map((row) => [row.state, row.count]));
};

/** Selects rollouts; an absent property does not filter. */
export interface RolloutFilter {
  states?: readonly RolloutState[] | undefined;
  configId?: string | undefined;
  /** Rollouts with this host as a target. */
  identityId?: string | undefined;
}

/** A reverted target keeps the time of its failure. */
const revertedFailed = sql<number>`case when ${rolloutWave.reverted} = 0 then 0 else (
  select count(*)::int from ${rolloutTarget} where ${rolloutTarget.rolloutId} = ${rollout.id} and ${rolloutTarget.wave} = ${rolloutWave.number}
    and ${rolloutTarget.status} = 'reverted' and ${rolloutTarget.failedAt} is not null) end`;

const columns = {
  row: rollout,
  configName: collectorConfig.name,
  configHash: collectorConfig.configHash,
  wave: rolloutWave,
  revertedFailed,
};

/** One statement, so that the state and the counts are of the same time. */
const findDescribed = async (
  db: Executor,
  where: SQL | undefined,
  limit: number,
): Promise<DescribedRollout[]> => {
  const ids = db
    .select({ id: rollout.id })
    .from(rollout)
    .where(where)
    .orderBy(desc(rollout.id))
    .limit(limit);
  const rows = await db
    .select(columns)
    .from(rollout)
    .innerJoin(collectorConfig, eq(collectorConfig.id, rollout.configId))
    .innerJoin(rolloutWave, eq(rolloutWave.rolloutId, rollout.id))
    .where(inArray(rollout.id, ids))
    .orderBy(desc(rollout.id), rolloutWave.number);
  return [...Map.groupBy(rows, ({ row }) => row.id).values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const waves = [first, ...others].map(({ wave, revertedFailed }) => ({
      ...wave,
      revertedFailed,
    }));
    return { ...first.row, configName: first.configName, configHash: first.configHash, waves };
  });
};

/** Returns one page of the rollouts, newest first. */
export const listRollouts = async (
  db: Executor,
  { states, configId, identityId }: RolloutFilter,
  { after, limit }: PageRequest,
): Promise<Paged<DescribedRollout>> => {
  const where = and(
    states === undefined ? undefined : inArray(rollout.state, [...states]),
    configId === undefined ? undefined : eq(rollout.configId, configId),
    identityId === undefined
      ? undefined
      : inArray(
          rollout.id,
          db
            .select({ id: rolloutTarget.rolloutId })
            .from(rolloutTarget)
            .where(eq(rolloutTarget.identityId, identityId)),
        ),
    after === null ? undefined : lt(rollout.id, after),
  );
  return paged(await findDescribed(db, where, limit + 1), { after, limit });
};

/** Finds a rollout with its waves. */
export const findRollout = (db: Executor, id: string): Promise<DescribedRollout | undefined> =>
  firstRow(findDescribed(db, eq(rollout.id, id), 1));

/** A target's row. */
type TargetRow = typeof rolloutTarget.$inferSelect;

/** Returns why a rollout cannot change a host of the filter, by the columns of `fleet` and of `collector_health` (h); null if it can. */
const skipReason = ({ now }: FleetRules): SQL => sql`case
  when revoked_from <= ${timestampAt(now)} then 'revoked'
  when h.apply_desired_config = false then 'apply_desired_config_off' end`;

/** Returns the hosts of a filter, with `skipped`: why a rollout cannot change one; null if it can. */
export const candidates = (filter: FleetFilter, rules: FleetRules): SQL => sql`(
  select f.identity_id, f.identity, f.version, ${skipReason(rules)} as skipped
  from (select * from fleet where ${fleetPredicate(filter, rules)}) f
  left join collector_health h on h.identity_id = f.identity_id)`;

/** Counts the hosts of a filter that a rollout can change, by version. */
export const countCandidates = async (
  db: Executor,
  filter: FleetFilter,
  rules: FleetRules,
): Promise<{ version: string; hosts: number }[]> =>
  db.execute<{ version: string; hosts: number }>(sql`
    select version, count(*)::int as hosts from ${candidates(filter, rules)} c where skipped is null group by 1 order by 1`);

/** Whether a rollout with this filter can change a host. */
export const isCandidate = (
  db: Executor,
  filter: FleetFilter,
  rules: FleetRules,
  identityId: string,
): Promise<boolean> =>
  hasRows(
    db.execute(
      sql`select from ${candidates(filter, rules)} c where identity_id = ${identityId}::uuid and skipped is null`,
    ),
  );

/** Counts the hosts of a filter that a rollout can change and that are targets of open rollouts. */
export const countOverlaps = async (
  db: Executor,
  filter: FleetFilter,
  rules: FleetRules,
  openRollouts: readonly string[],
): Promise<{ rolloutId: string; hosts: number }[]> =>
  openRollouts.length === 0
    ? []
    : db.execute<{ rolloutId: string; hosts: number }>(sql`
        select t.rollout_id as "rolloutId", count(*)::int as hosts
        from ${candidates(filter, rules)} f
        join rollout_target t on t.identity_id = f.identity_id
        where f.skipped is null and t.rollout_id = any(${arrayLiteral(openRollouts)}::uuid[]) and t.status <> 'skipped'
        group by 1 order by 1`);

/** Counts the hosts that a rollout has changed and that are targets of open rollouts. */
export const countSharedTargets = async (
  db: Executor,
  rolloutId: string,
  openRollouts: readonly string[],
): Promise<{ rolloutId: string; hosts: number }[]> =>
  openRollouts.length === 0
    ? []
    : db.execute<{ rolloutId: string; hosts: number }>(sql`
        select t.rollout_id as "rolloutId", count(*)::int as hosts
        from rollout_target own join rollout_target t on t.identity_id = own.identity_id
        where own.rollout_id = ${rolloutId}::uuid and own.status in ('assigned', 'applied', 'failed')
          and t.rollout_id = any(${arrayLiteral(openRollouts)}::uuid[]) and t.status <> 'skipped'
        group by 1 order by 1`);

/**
 * Inserts the hosts of a filter as targets, in one statement. `reaches` is the number of targets up to and including each wave; hosts that
 * the rollout cannot change are skipped and belong to the last wave.
 */
export const insertTargets = async (
  tx: Executor,
  rolloutId: string,
  {
    filter,
    rules,
    reaches,
  }: { filter: FleetFilter; rules: FleetRules; reaches: readonly number[] },
): Promise<void> => {
  const waves = reaches.length;
  await tx.execute(sql`
    insert into rollout_target (rollout_id, place, identity_id, wave, status, reason)
    select ${rolloutId}::uuid, place, identity_id,
      case when skipped is not null then ${waves}::int else least(${waves}::int,
        1 + width_bucket(place - 1, ${arrayLiteral(reaches.map(String))}::int[])) end,
      case when skipped is null then 'pending' else 'skipped' end, skipped
    from (
      select identity_id, skipped,
        (row_number() over (order by skipped nulls first, md5(${rolloutId} || identity_id::text), identity_id))::int as place
      from ${candidates(filter, rules)} c
    ) placed`);
};

/** The number of targets by status. */
type TargetCounts = Record<TargetStatus, number>;

/** Counts the targets of each wave by status. A wave without targets is absent. */
export const countTargets = async (
  db: Executor,
  rolloutId: string,
): Promise<ReadonlyMap<number, TargetCounts>> => {
  const rows = await db.execute<{ wave: number; status: TargetStatus; targets: number }>(sql`
    select wave, status, count(*)::int as targets from rollout_target where rollout_id = ${rolloutId}::uuid group by 1, 2`);
  const counts = new Map<number, TargetCounts>();
  for (const { wave, status, targets } of rows)
    counts.set(wave, { ...(counts.get(wave) ?? noTargets), [status]: targets });
  return counts;
};

/** No targets of any status. */
export const noTargets = Object.fromEntries(
  targetStatuses.map((status) => [status, 0]),
) as TargetCounts;

/** Selects targets of a rollout; an absent property does not filter. */
export interface TargetFilter {
  rolloutId: string;
  wave?: number | undefined;
  statuses?: readonly TargetStatus[] | undefined;
}

/** A target, and the names of its host. */
export interface TargetListRow
  extends Omit<TargetRow, "rolloutId" | "assignmentId" | "failedVersion"> {
  identity: string;
  deviceId: string;
}

type Times = "assignedAt" | "appliedAt" | "failedAt" | "conditionBeganAt" | "revertedAt";

/** Returns one page of the targets of a rollout, in order, and the position of the last one if there are more. */
export const listTargets = async (
  db: Executor,
  { rolloutId, wave, statuses }: TargetFilter,
  { after, limit }: { after: number | null; limit: number },
): Promise<{ rows: TargetListRow[]; next: number | null }> => {
  const where: SQL[] = [sql`rollout_id = ${rolloutId}::uuid`];
  if (wave !== undefined) where.push(sql`wave = ${wave}`);
  if (statuses !== undefined) where.push(sql`status = any(${arrayLiteral(statuses)}::text[])`);
  if (after !== null) where.push(sql`place > ${after}`);
  const rows = await db.execute<Omit<TargetListRow, Times> & Record<Times, string | null>>(sql`
    select t.place, t.identity_id as "identityId", f.identity, f.device_id as "deviceId", t.wave, t.status, t.reason,
      t.previous_config_id as "previousConfigId", t.assigned_at as "assignedAt", t.applied_at as "appliedAt",
      t.failed_at as "failedAt", t.condition, t.condition_began_at as "conditionBeganAt", t.condition_detail as "conditionDetail",
      t.reverted_at as "revertedAt"
    from (select * from rollout_target where ${sql.join(where, sql` and `)} order by place limit ${limit + 1}) t
    cross join lateral (select identity, device_id from fleet where identity_id = t.identity_id limit 1) f
    order by t.place`);
  const date = (text: string | null) => (text === null ? null : new Date(text));
  return {
    rows: rows.slice(0, limit).map((row) => ({
      ...row,
      assignedAt: date(row.assignedAt),
      appliedAt: date(row.appliedAt),
      failedAt: date(row.failedAt),
      conditionBeganAt: date(row.conditionBeganAt),
      revertedAt: date(row.revertedAt),
    })),
    next: rows.length > limit ? (rows[limit - 1]?.place ?? null) : null,
  };
};
