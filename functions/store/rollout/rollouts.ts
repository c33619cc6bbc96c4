import { and, count, desc, eq, inArray, isNull, lt, type SQL, sql } from "drizzle-orm";
import { collectorConfig } from "#drizzle/schema/config.ts";
import { rollout, rolloutTarget, rolloutWave } from "#drizzle/schema/rollout.ts";
import type { RolloutState } from "#proto/rollout/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import {
  firstRow,
  inserterOf,
  lockerOf,
  type Paged,
  type PageRequest,
  paged,
  updaterOf,
} from "../database/statements.ts";

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
