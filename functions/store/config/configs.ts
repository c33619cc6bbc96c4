import { and, desc, eq, isNotNull, isNull, ne, type SQL, sql } from "drizzle-orm";
import { collectorConfig, configAssignment } from "#drizzle/schema/config.ts";
import { collectorHealth } from "#drizzle/schema/health.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  asIs,
  finderOf,
  firstRow,
  hasRows,
  inserterOf,
  type RowOf,
  readRows,
  uuids,
} from "../database/statements.ts";

/** A published config's row. */
export type ConfigRow = typeof collectorConfig.$inferSelect;

/** Inserts a config. */
export const insertConfig = inserterOf(collectorConfig);

/** Finds a config. */
export const findConfig = finderOf(collectorConfig);

/** Finds the hashes of configs by their ids. */
export const findConfigHashes = async (
  db: Executor,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  if (ids.length === 0) return new Map();
  const { id, configHash } = collectorConfig;
  const rows = await db
    .select({ id, configHash })
    .from(collectorConfig)
    .where(anyOf(id, [...new Set(ids)]));
  return new Map(rows.map((row) => [row.id, row.configHash]));
};

/** Finds the newest config with this hash. */
export const findNewestConfigByHash = (
  db: Executor,
  configHash: string,
): Promise<ConfigRow | undefined> =>
  firstRow(
    db
      .select()
      .from(collectorConfig)
      .where(eq(collectorConfig.configHash, configHash))
      .orderBy(desc(collectorConfig.createdAt), desc(collectorConfig.id))
      .limit(1),
  );

/** The desired config of an identity. */
export interface CurrentAssignment {
  configId: string;
  configHash: string;
  assignedAt: Date;
  /** The published text, verbatim. */
  yaml: string;
}

const isOpen = (identityId: string) =>
  and(eq(configAssignment.identityId, identityId), isNull(configAssignment.endedAt));

/** Finds the desired config of an identity. */
export const findCurrentAssignment = (
  db: Executor,
  identityId: string,
): Promise<CurrentAssignment | undefined> =>
  firstRow(
    db
      .select({
        configId: collectorConfig.id,
        configHash: collectorConfig.configHash,
        assignedAt: configAssignment.assignedAt,
        yaml: collectorConfig.yaml,
      })
      .from(configAssignment)
      .innerJoin(collectorConfig, eq(collectorConfig.id, configAssignment.configId))
      .where(isOpen(identityId)),
  );

/** An assignment's row. */
export type AssignmentRow = typeof configAssignment.$inferSelect;

/** Finds the open assignment of an identity. Lock the identity before you change it. */
export const findOpenAssignment = (
  db: Executor,
  identityId: string,
): Promise<AssignmentRow | undefined> =>
  firstRow(db.select().from(configAssignment).where(isOpen(identityId)));

/** Finds the config that was desired before `currentConfigId`. */
export const findPreviousConfigId = async (
  db: Executor,
  identityId: string,
  currentConfigId: string | null,
): Promise<string | undefined> => {
  const { configId, assignedAt, endedAt } = configAssignment;
  const [row] = await db
    .select({ configId })
    .from(configAssignment)
    .where(
      and(
        eq(configAssignment.identityId, identityId),
        isNotNull(endedAt),
        currentConfigId === null ? undefined : ne(configId, currentConfigId),
      ),
    )
    .orderBy(desc(assignedAt))
    .limit(1);
  return row?.configId;
};

/** Ends the open assignment of an identity. Returns false if there is none. */
export const endAssignment = (db: Executor, identityId: string, endedAt: Date): Promise<boolean> =>
  hasRows(
    db
      .update(configAssignment)
      .set({ endedAt })
      .where(isOpen(identityId))
      .returning({ id: configAssignment.id }),
  );

/** Inserts an open assignment. */
export const insertAssignment = inserterOf(configAssignment);

/** Finds the last known good hash in the newest heartbeat of an identity; null if it has none. */
export const findLastKnownGoodHash = async (
  db: Executor,
  identityId: string,
): Promise<string | null> => {
  const [row] = await db
    .select({ hash: collectorHealth.lastKnownGoodConfigHash })
    .from(collectorHealth)
    .where(eq(collectorHealth.identityId, identityId));
  return row?.hash ?? null;
};

/** Hosts of one version: how many, and the names of the first. */
export type VersionHosts = RowOf<typeof versionHosts>;
const versionHosts = { version: String, hosts: Number, names: asIs<string[]> };

/** Counts the hosts of a relation with `version` and `identity`, by version. */
export const countByVersion = (db: Executor, hosts: SQL): Promise<VersionHosts[]> =>
  readRows(
    db,
    versionHosts,
    sql`
    select version, count(*)::int as hosts, to_json((array_agg(identity order by identity))[1:3]) as names
    from ${hosts} h where version is not null group by 1 order by 1`,
  );

/** Counts hosts by version, with the names of the first of each. */
export const nameHosts = (db: Executor, identityIds: readonly string[]): Promise<VersionHosts[]> =>
  countByVersion(db, sql`(select * from fleet where identity_id = any(${uuids(identityIds)}))`);
