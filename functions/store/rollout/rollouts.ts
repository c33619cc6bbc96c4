import { and, count, eq, inArray, isNull, type SQL, sql } from "drizzle-orm";
import { collectorConfig, configAssignment } from "#drizzle/schema/config.ts";
import { rollout, rolloutTarget, rolloutWave } from "#drizzle/schema/rollout.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import {
  type RolloutState,
  type TargetReason,
  type TargetStatus,
  targetStatuses,
} from "#proto/rollout/vocabulary.ts";
import type { AssignmentRow } from "../config/configs.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  asDate,
  asIs,
  firstRow,
  hasRows,
  inserterOf,
  insertRows,
  lockerOf,
  orNull,
  type Paged,
  type PageRequest,
  paged,
  pageOrder,
  type RowOf,
  readRows,
  texts,
  timestamptz,
  updaterOf,
  uuids,
} from "../database/statements.ts";
import type { FleetRules } from "../fleet/conditions.ts";
import { fleetPredicate } from "../fleet/predicate.ts";

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
export const lockRolloutCreation = async (tx: Executor) => {
  await tx.execute(sql`select pg_advisory_xact_lock(${creationLockKey}::bigint)`);
};

/** Inserts a rollout. */
export const insertRollout = inserterOf(rollout);

/** Inserts the waves of a rollout. */
export const insertWaves = inserterOf(rolloutWave);

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
) => {
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
  order: readonly SQL[] = [],
): Promise<DescribedRollout[]> => {
  const ids = db
    .select({ id: rollout.id })
    .from(rollout)
    .where(where)
    .orderBy(...order)
    .limit(limit);
  const rows = await db
    .select(columns)
    .from(rollout)
    .innerJoin(collectorConfig, eq(collectorConfig.id, rollout.configId))
    .innerJoin(rolloutWave, eq(rolloutWave.rolloutId, rollout.id))
    .where(inArray(rollout.id, ids))
    .orderBy(...order, rolloutWave.number);
  return [...Map.groupBy(rows, ({ row }) => row.id).values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const waves = [first, ...others].map(({ wave, revertedFailed }) => ({
      ...wave,
      revertedFailed,
    }));
    return { ...first.row, configName: first.configName, configHash: first.configHash, waves };
  });
};

/** What needs somebody first: a rollout that waits for a decision, then one that is open. */
const severityRank = sql`case when ${rollout.state} = 'paused' then 0 when ${rollout.endedAt} is null then 1 else 2 end`;

/** Returns one page of the rollouts, newest first. */
export const listRollouts = async (
  db: Executor,
  { states, configId, identityId }: RolloutFilter,
  page: PageRequest,
): Promise<Paged<DescribedRollout>> => {
  const { order, beyond } = pageOrder(rollout.id, page, severityRank);
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
    beyond,
  );
  return paged(await findDescribed(db, where, page.limit + 1, order), page, ({ id }) => id);
};

/** Finds a rollout with its waves. */
export const findRollout = (db: Executor, id: string): Promise<DescribedRollout | undefined> =>
  firstRow(findDescribed(db, eq(rollout.id, id), 1));

/** A target's row. */
type TargetRow = typeof rolloutTarget.$inferSelect;

/** Returns why a rollout cannot change a host of the filter, by the columns of `fleet` and of `collector_health` (h); null if it can. */
const skipReason = ({ now }: FleetRules): SQL => sql`case
  when revoked_from <= ${timestamptz(now)} then 'revoked'
  when h.apply_desired_config = false then 'apply_desired_config_off' end`;

/** Returns the hosts of a filter, with `skipped`: why a rollout cannot change one; null if it can. */
export const candidates = (filter: FleetFilter, rules: FleetRules): SQL => sql`(
  select f.identity_id, f.identity, f.agent, f.version, ${skipReason(rules)} as skipped
  from (select * from fleet where ${fleetPredicate(filter, rules)}) f
  left join collector_health h on h.identity_id = f.identity_id)`;

/** Counts the hosts of a filter that a rollout can change, by version. */
export const countCandidates = async (
  db: Executor,
  filter: FleetFilter,
  rules: FleetRules,
): Promise<{ version: string; hosts: number }[]> =>
  readRows(
    db,
    { version: String, hosts: Number },
    sql`
    select version, count(*) as hosts from ${candidates(filter, rules)} c where skipped is null group by 1 order by 1`,
  );

/** Reports whether a rollout with this filter can change a host. */
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

/** The number of hosts that are targets of another rollout too. */
export type RolloutOverlap = RowOf<typeof overlap>;
const overlap = { rolloutId: String, hosts: Number };

/** Counts by rollout the targets of open rollouts among these hosts, a relation with `identity_id`. */
const countAmong = async (
  db: Executor,
  hosts: SQL,
  openRollouts: readonly string[],
): Promise<RolloutOverlap[]> =>
  openRollouts.length === 0
    ? []
    : readRows(
        db,
        overlap,
        sql`
        select t.rollout_id, count(*) as hosts from (${hosts}) own join rollout_target t on t.identity_id = own.identity_id
        where t.rollout_id = any(${uuids(openRollouts)}) and t.status <> 'skipped'
        group by 1 order by 1`,
      );

/** Counts the hosts of a filter that a rollout can change and that are targets of open rollouts. */
export const countOverlaps = (
  db: Executor,
  filter: FleetFilter,
  rules: FleetRules,
  openRollouts: readonly string[],
): Promise<RolloutOverlap[]> =>
  countAmong(
    db,
    sql`select identity_id from ${candidates(filter, rules)} c where skipped is null`,
    openRollouts,
  );

/** Counts the hosts that a rollout has changed and that are targets of open rollouts. */
export const countSharedTargets = (
  db: Executor,
  rolloutId: string,
  openRollouts: readonly string[],
): Promise<RolloutOverlap[]> =>
  countAmong(
    db,
    sql`select identity_id from rollout_target where rollout_id = ${rolloutId}::uuid and status in ('assigned', 'applied', 'failed')`,
    openRollouts,
  );

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
) => {
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
export type TargetListRow = RowOf<typeof listedTarget>;
const listedTarget = {
  place: Number,
  identityId: String,
  identity: String,
  deviceId: String,
  wave: Number,
  status: asIs<TargetStatus>,
  reason: asIs<TargetReason | null>,
  previousConfigId: orNull(String),
  assignedAt: orNull(asDate),
  appliedAt: orNull(asDate),
  failedAt: orNull(asDate),
  condition: asIs<TargetRow["condition"]>,
  conditionBeganAt: orNull(asDate),
  conditionDetail: orNull(String),
  revertedAt: orNull(asDate),
};

/** Returns one page of the targets of a rollout, in order, and the position of the last one if there are more. */
export const listTargets = async (
  db: Executor,
  { rolloutId, wave, statuses }: TargetFilter,
  { after, limit }: PageRequest,
): Promise<Paged<TargetListRow>> => {
  const where: SQL[] = [sql`rollout_id = ${rolloutId}::uuid`];
  if (wave !== undefined) where.push(sql`wave = ${wave}`);
  if (statuses !== undefined) where.push(sql`status = any(${texts(statuses)})`);
  if (after !== null) where.push(sql`place > ${Number(after)}`);
  const rows = await readRows(
    db,
    listedTarget,
    sql`
    select t.*, f.identity, f.device_id
    from (select * from rollout_target where ${sql.join(where, sql` and `)} order by place limit ${limit + 1}) t
    cross join lateral (select identity, device_id from fleet where identity_id = t.identity_id limit 1) f
    order by t.place`,
  );
  return paged(rows, { limit }, ({ place }) => String(place));
};

/** A target that is about to change, whose host is locked until the transaction ends, and the host's open assignment. */
export type LockedTarget = RowOf<typeof lockedTarget>;
const lockedTarget = {
  place: Number,
  identityId: String,
  identity: String,
  isRevoked: Boolean,
  /** False if the host reports that it does not apply core's configs; null without a report. */
  applies: orNull(Boolean),
  /** The assignment of the rollout, and the one that it replaced. */
  assignmentId: orNull(String),
  previousConfigId: orNull(String),
  openAssignmentId: orNull(String),
  openConfigId: orNull(String),
};

/** Finds the first targets with one of these statuses, of one wave if given, and locks their hosts in the order of ids. */
export const lockTargets = async (
  tx: Executor,
  {
    rolloutId,
    statuses,
    wave,
  }: { rolloutId: string; statuses: readonly TargetStatus[]; wave?: number },
  limit: number,
): Promise<LockedTarget[]> => {
  const first = sql`(select * from rollout_target
    where rollout_id = ${rolloutId}::uuid and status = any(${texts(statuses)}) ${wave === undefined ? sql`` : sql`and wave = ${wave}`}
    order by place limit ${limit})`;
  await tx.execute(sql`
    select from collector_identity where id = any(array(select identity_id from ${first} t)) order by id for no key update`);
  // A second statement, which sees what others committed before the locks.
  return readRows(
    tx,
    lockedTarget,
    sql`
    select t.place, t.identity_id, i.identity, i.revoked_at is not null as is_revoked, h.apply_desired_config as applies,
      t.assignment_id, t.previous_config_id, a.id as open_assignment_id, a.config_id as open_config_id
    from ${first} t
    cross join lateral (select * from collector_identity where id = t.identity_id limit 1) i
    left join lateral (select apply_desired_config from collector_health where identity_id = t.identity_id limit 1) h on true
    left join lateral (
      select id, config_id from config_assignment where identity_id = t.identity_id and ended_at is null limit 1
    ) a on true
    order by t.place`,
  );
};

/** Ends the open assignments of hosts that the transaction has locked. */
export const endAssignments = async (
  tx: Executor,
  identityIds: readonly string[],
  endedAt: Date,
) => {
  if (identityIds.length === 0) return;
  await tx.execute(sql`update config_assignment set ended_at = ${timestamptz(endedAt)}
    where identity_id = any(${uuids(identityIds)}) and ended_at is null`);
};

/** Inserts open assignments. */
export const insertAssignments = async (tx: Executor, rows: readonly AssignmentRow[]) => {
  await insertRows(tx, configAssignment, rows);
};

/** A change of a target. */
export interface TargetChange {
  place: number;
  status: TargetStatus;
  reason: TargetReason | null;
  assignmentId: string | null;
  previousConfigId: string | null;
}

/** Changes targets, and stores the time of the assignment or of the rollback. */
export const updateTargets = async (
  tx: Executor,
  rolloutId: string,
  changes: readonly TargetChange[],
  at: Date,
) => {
  const json = JSON.stringify(
    changes.map(({ place, status, reason, assignmentId, previousConfigId }) => ({
      place,
      status,
      reason,
      assignment_id: assignmentId,
      previous_config_id: previousConfigId,
    })),
  );
  await tx.execute(sql`
    update rollout_target t set status = c.status, reason = c.reason, assignment_id = c.assignment_id,
      previous_config_id = c.previous_config_id,
      assigned_at = case when c.status = 'assigned' then ${timestamptz(at)} else t.assigned_at end,
      reverted_at = case when c.status = 'reverted' then ${timestamptz(at)} else t.reverted_at end
    from json_to_recordset(${json}::json) as
      c (place int, status text, reason text, assignment_id uuid, previous_config_id uuid)
    where t.rollout_id = ${rolloutId}::uuid and t.place = c.place`);
};
