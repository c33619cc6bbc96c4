import { and, desc, eq, isNotNull, isNull, ne, type SQL, sql } from "drizzle-orm";
import { collectorConfig, configAssignment } from "#drizzle/schema/config.ts";
import { collectorHealth } from "#drizzle/schema/health.ts";
import type { AgentKind } from "#proto/values.ts";
import type { Executor } from "../database/database.ts";
import {
  anyOf,
  asDate,
  asIs,
  finderOf,
  firstRow,
  hasRows,
  inserterOf,
  orNull,
  type RowOf,
  readRows,
  texts,
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

/** What an OpAMP agent should run, and when core last received a sign of life. */
export type DesiredOtelcol = RowOf<typeof desiredOtelcol>;
const desiredOtelcol = {
  assignmentId: String,
  configId: String,
  configHash: String,
  lastHeartbeatAt: orNull(asDate),
};

/** Finds the desired config of an OpAMP agent. */
export const findDesiredOtelcol = async (
  db: Executor,
  identityId: string,
): Promise<DesiredOtelcol | undefined> => {
  const rows = await readRows(
    db,
    desiredOtelcol,
    sql`
    select a.id as assignment_id, c.id as config_id, c.config_hash,
      (select nullif(last_heartbeat_at, '-infinity') from fleet_status where identity_id = a.identity_id) as last_heartbeat_at
    from config_assignment a join collector_config c on c.id = a.config_id
    where a.identity_id = ${identityId}::uuid and a.ended_at is null and c.kind = 'otelcol'`,
  );
  return rows[0];
};

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

/** Hosts of one version and kind of agent: how many, and the names of the first. */
export type VersionHosts = RowOf<typeof versionHosts>;
const versionHosts = {
  version: String,
  agent: asIs<AgentKind>,
  hosts: Number,
  names: asIs<string[]>,
};

/** Hosts of one version that lack the same types of components. */
type LackingHosts = RowOf<typeof lackingHosts>;
const lackingHosts = { ...versionHosts, missing: asIs<string[]> };

/** Hosts that may get a config. */
export interface AskedHosts {
  /** Counts them, or those that are not of a kind of agent, by version and kind. */
  byVersion(of: { notOf?: AgentKind }): Promise<VersionHosts[]>;
  /** Counts those that have reported their components, and not all of these types. */
  lacking(types: readonly string[]): Promise<LackingHosts[]>;
}

const counted = sql`count(*)::int as hosts, to_json((array_agg(identity order by identity))[1:3]) as names`;

/** Returns the hosts of a relation with `identity_id`, `identity`, `agent` and `version`. */
export const askedHostsOf = (db: Executor, hosts: SQL): AskedHosts => ({
  byVersion: ({ notOf = "" }) =>
    readRows(
      db,
      versionHosts,
      sql`select coalesce(version, '') as version, agent, ${counted} from ${hosts} h
        where agent <> ${notOf} group by 1, 2 order by 1, 2`,
    ),
  lacking: (types) =>
    readRows(
      db,
      lackingHosts,
      sql`
      select coalesce(version, '') as version, agent, to_json(array(
          select unnest(${texts(types)}) except select unnest(a.available_components) order by 1)) as missing, ${counted}
      from ${hosts} h join opamp_agent a on a.identity_id = h.identity_id
      where not a.available_components @> ${texts(types)} group by 1, 2, a.available_components order by 1, 2`,
    ),
});

/** Returns hosts by their ids. */
export const hostsById = (db: Executor, identityIds: readonly string[]): AskedHosts =>
  askedHostsOf(db, sql`(select * from fleet where identity_id = any(${uuids(identityIds)}))`);
