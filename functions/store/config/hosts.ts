import { eq, getTableColumns, ilike, or, type SQL, sql } from "drizzle-orm";
import { collectorConfig } from "#drizzle/schema/config.ts";
import { person } from "#drizzle/schema/operator.ts";
import type { ConfigProgress } from "#proto/fleet-health/vocabulary.ts";
import type { AgentKind } from "#proto/values.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  asDate,
  asIs,
  firstRow,
  orNull,
  type Paged,
  type PageRequest,
  paged,
  type RowOf,
  readRows,
  selectPage,
  substring,
  timestamptz,
} from "../database/statements.ts";
import {
  appliedAt,
  type CountingRules,
  hashKey,
  notRevoked,
  progressOf,
} from "../fleet/conditions.ts";
import type { ConfigRow } from "./configs.ts";

/** The hosts of one config hash. Revoked hosts are not counted. */
export interface ProgressCounts extends Record<ConfigProgress, number> {
  silentRunning: number;
  undesired: number;
  /** When the last host that runs it as desired began to run it; null without one. */
  appliedAt: Date | null;
}

const noHosts: ProgressCounts = {
  silent: 0,
  running: 0,
  failed: 0,
  drifted: 0,
  silentRunning: 0,
  undesired: 0,
  appliedAt: null,
};

/**
 * Counts the hosts of each hash, in one scan of the fleet; a hash without hosts has zeros. Groups hosts by their step and whole hashes
 * first, so that a step is decided once for each host, and the wanted hashes once for each group.
 */
export const countProgress = async (
  db: Executor,
  rules: CountingRules,
  hashes: readonly string[],
): Promise<(hash: string) => ProgressCounts> => {
  const wanted = sql`${arrayLiteral([...new Set(hashes)].map((hash) => Uint8Array.fromHex(hash)))}::bytea[]`;
  // For one hash this keeps most hosts out of the grouping; for many it would compare each host with all of them.
  const isWanted =
    hashes.length === 1
      ? sql`and (desired_config_key = ${hashKey(hashes[0] ?? "")} or running_config_key = ${hashKey(hashes[0] ?? "")})`
      : sql``;
  const rows = await readRows(
    db,
    {
      desired: orNull(String),
      running: orNull(String),
      step: asIs<ConfigProgress>,
      hosts: Number,
      appliedAt: orNull(asDate),
    },
    sql`
    with wanted as materialized (select hash, fleet_hash_key(hash) as key from unnest(${wanted}) hash), grouped as (
      select desired_config_key, running_config_key, ${progressOf(rules)} as step, count(*) as hosts, max(${appliedAt}) as applied_at
      from fleet where ${notRevoked(rules)} ${isWanted} group by 1, 2, 3
    )
    select encode(d.hash, 'hex') as desired, encode(r.hash, 'hex') as running, step, sum(hosts)::int as hosts,
      nullif(max(applied_at) filter (where d.hash = r.hash), '-infinity') as applied_at
    from grouped left join wanted d on d.key = desired_config_key left join wanted r on r.key = running_config_key
    where d.hash is not null or r.hash is not null group by 1, 2, 3`,
  );
  const counts = new Map<string, ProgressCounts>();
  const change = (hash: string, changed: (before: ProgressCounts) => Partial<ProgressCounts>) => {
    const before = counts.get(hash) ?? noHosts;
    counts.set(hash, { ...before, ...changed(before) });
  };
  for (const { desired, running, step, hosts, appliedAt: at } of rows) {
    const runsDesired = desired === running;
    if (desired !== null)
      change(desired, (before) => ({
        [step]: before[step] + hosts,
        silentRunning: before.silentRunning + (runsDesired && step === "silent" ? hosts : 0),
        appliedAt: laterOf(before.appliedAt, at),
      }));
    if (running !== null && !runsDesired)
      change(running, (before) => ({ undesired: before.undesired + hosts }));
  }
  return (hash) => counts.get(hash) ?? noHosts;
};

const laterOf = (before: Date | null, at: Date | null): Date | null =>
  before !== null && (at === null || before > at) ? before : at;

const { yaml, ...columns } = getTableColumns(collectorConfig);
const listedConfig = { ...columns, createdByEmail: person.primaryEmail };

/** A published config without its text, and the email of its publisher. */
export type ListedConfigRow = Omit<ConfigRow, "yaml"> & { createdByEmail: string | null };

/** Selects configs; an absent property does not filter. */
export interface ConfigFilter {
  /** Part of a name in any case, or the start of a hash. */
  text?: string | undefined;
  kind?: AgentKind | undefined;
}

/** Returns one page of the configs. */
export const listConfigs = (
  db: Executor,
  { text, kind }: ConfigFilter,
  page: PageRequest,
): Promise<Paged<ListedConfigRow>> => {
  const query = db
    .select(listedConfig)
    .from(collectorConfig)
    .leftJoin(person, eq(person.userId, columns.createdBy));
  return selectPage(query, columns.id, page, [
    text === undefined
      ? undefined
      : or(
          ilike(columns.name, substring(text)),
          sql`starts_with(${columns.configHash}, ${text.toLowerCase()})`,
        ),
    kind && eq(columns.kind, kind),
  ]);
};

/** Finds a config with its text and the email of its publisher. */
export const findListedConfig = (
  db: Executor,
  id: string,
): Promise<(ListedConfigRow & { yaml: string }) | undefined> =>
  firstRow(
    db
      .select({ ...listedConfig, yaml })
      .from(collectorConfig)
      .leftJoin(person, eq(person.userId, columns.createdBy))
      .where(eq(columns.id, id)),
  );

/** A hash that hosts run and no published config has. */
export type UnstoredHash = Omit<RowOf<typeof unstoredHash>, "hashes">;
const unstoredHash = {
  configHash: String,
  running: Number,
  lastHeartbeatAt: orNull(asDate),
  hashes: Number,
};

/** Finds the hashes that hosts run and no published config has, those with the most hosts first, and the number of such hashes. */
export const findUnstoredHashes = async (
  db: Executor,
  rules: CountingRules,
  limit: number,
): Promise<{ rows: UnstoredHash[]; hashes: number }> => {
  const rows = await readRows(
    db,
    unstoredHash,
    sql`
    select encode(running_config, 'hex') as config_hash, running, last_heartbeat_at, count(*) over () as hashes
    from (
      select running_config, count(*)::int as running, nullif(max(last_heartbeat_at), '-infinity') as last_heartbeat_at
      from fleet where running_config <> '\\x'::bytea and ${notRevoked(rules)} group by 1
    ) grouped
    where not exists (select from ${collectorConfig} where config_hash = encode(running_config, 'hex'))
    order by running desc, running_config limit ${limit}`,
  );
  return { rows: rows.map(({ hashes: _, ...row }) => row), hashes: rows[0]?.hashes ?? 0 };
};

/** The assignments of a config that one person made within one minute. */
export type AssignmentBatchRow = RowOf<typeof assignmentBatch>;
const assignmentBatch = {
  from: asDate,
  assignedBy: String,
  assignedByEmail: orNull(String),
  assigned: Number,
  current: Number,
};

/** Finds the newest batches of a config. */
export const findAssignmentBatches = (
  db: Executor,
  configId: string,
  limit: number,
): Promise<AssignmentBatchRow[]> =>
  readRows(
    db,
    assignmentBatch,
    sql`
    select b.*, p.primary_email as assigned_by_email from (
      select date_trunc('minute', assigned_at) as "from", assigned_by, count(*) as assigned, count(*) filter (where ended_at is null) as current
      from config_assignment where config_id = ${configId}::uuid group by 1, 2 order by 1 desc, 2 limit ${limit}
    ) b left join person p on p.user_id = b.assigned_by order by 1 desc, 2`,
  );

/** Selects assignments of a config; an absent property does not filter. */
export interface AssignmentFilter {
  /** Whether they have not been replaced or removed. */
  current?: boolean | undefined;
  assignedBy?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
}

/** An assignment of a config, and its host's progress with it. */
export type AssignmentListRow = RowOf<typeof listedAssignment>;
const listedAssignment = {
  id: String,
  identityId: String,
  identity: String,
  deviceId: String,
  assignedAt: asDate,
  assignedBy: String,
  assignedByEmail: orNull(String),
  endedAt: orNull(asDate),
  progress: asIs<ConfigProgress | null>,
  appliedAt: orNull(asDate),
};

/** Returns one page of the assignments of a config. */
export const listAssignments = async (
  db: Executor,
  rules: CountingRules,
  { configId, current, assignedBy, since, until }: AssignmentFilter & { configId: string },
  { after, limit }: PageRequest,
): Promise<Paged<AssignmentListRow>> => {
  const where: SQL[] = [sql`a.config_id = ${configId}::uuid`];
  if (current !== undefined)
    where.push(current ? sql`a.ended_at is null` : sql`a.ended_at is not null`);
  if (assignedBy !== undefined) where.push(sql`a.assigned_by = ${assignedBy}::uuid`);
  if (since !== undefined) where.push(sql`a.assigned_at >= ${timestamptz(since)}`);
  if (until !== undefined) where.push(sql`a.assigned_at < ${timestamptz(until)}`);
  if (after !== null) where.push(sql`a.id < ${after}::uuid`);
  const isOpen = sql`a.ended_at is null and ${notRevoked(rules)}`;
  const rows = await readRows(
    db,
    listedAssignment,
    sql`
    select a.id, a.identity_id, f.identity, f.device_id, a.assigned_at, a.assigned_by, p.primary_email as assigned_by_email, a.ended_at,
      case when ${isOpen} then ${progressOf(rules)} end as progress,
      case when ${isOpen} and drift = 'in_sync' then nullif(${appliedAt}, '-infinity') end as applied_at
    from (select * from config_assignment a where ${sql.join(where, sql` and `)} order by id desc limit ${limit + 1}) a
    cross join lateral (select * from fleet where identity_id = a.identity_id limit 1) f
    left join person p on p.user_id = a.assigned_by
    order by a.id desc`,
  );
  return paged(rows, { limit }, ({ id }) => id);
};
