import { type SQL, sql } from "drizzle-orm";
import { collectorConfig } from "#drizzle/schema/config.ts";
import type { ConfigProgress } from "#proto/fleet-health/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  type Paged,
  type PageRequest,
  paged,
  substring,
} from "../database/statements.ts";
import { appliedAt, type CountingRules, hashKey, isCounted, progressOf } from "../fleet/rows.ts";

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
  const rows = await db.execute<{
    desired: string | null;
    running: string | null;
    step: ConfigProgress;
    hosts: number;
    applied_at: string | null;
  }>(sql`
    with wanted as materialized (select hash, fleet_hash_key(hash) as key from unnest(${wanted}) hash), grouped as (
      select desired_config_key, running_config_key, ${progressOf(rules)} as step, count(*) as hosts, max(${appliedAt}) as applied_at
      from fleet where ${isCounted(rules)} ${isWanted} group by 1, 2, 3
    )
    select encode(d.hash, 'hex') as desired, encode(r.hash, 'hex') as running, step, sum(hosts)::int as hosts,
      nullif(max(applied_at) filter (where d.hash = r.hash), '-infinity') as applied_at
    from grouped left join wanted d on d.key = desired_config_key left join wanted r on r.key = running_config_key
    where d.hash is not null or r.hash is not null group by 1, 2, 3`);
  const counts = new Map<string, ProgressCounts>();
  const change = (hash: string, changed: (before: ProgressCounts) => Partial<ProgressCounts>) => {
    const before = counts.get(hash) ?? noHosts;
    counts.set(hash, { ...before, ...changed(before) });
  };
  for (const { desired, running, step, hosts, applied_at } of rows) {
    const runsDesired = desired === running;
    if (desired !== null)
      change(desired, (before) => ({
        [step]: before[step] + hosts,
        silentRunning: before.silentRunning + (runsDesired && step === "silent" ? hosts : 0),
        appliedAt: laterOf(before.appliedAt, applied_at),
      }));
    if (running !== null && !runsDesired)
      change(running, (before) => ({ undesired: before.undesired + hosts }));
  }
  return (hash) => counts.get(hash) ?? noHosts;
};

const laterOf = (before: Date | null, text: string | null): Date | null => {
  if (text === null) return before;
  const at = new Date(text);
  return before === null || at > before ? at : before;
};

/** A published config without its text, and the email of its publisher. */
export interface ListedConfigRow {
  id: string;
  name: string | null;
  configHash: string;
  sizeBytes: number;
  createdAt: Date;
  createdBy: string;
  createdByEmail: string | null;
}

const configColumns = sql`c.id, c.name, c.config_hash as "configHash", c.size_bytes as "sizeBytes", c.created_at, c.created_by as "createdBy",
  p.primary_email as "createdByEmail"`;
const publisher = sql`left join person p on p.user_id = c.created_by`;

type ConfigQueryRow = Omit<ListedConfigRow, "createdAt"> & { created_at: string };

const listed = <Row extends ConfigQueryRow>({ created_at, ...row }: Row) => ({
  ...row,
  createdAt: new Date(created_at),
});

/** Returns one page of the configs whose name contains `text` in any case, or whose hash begins with it. */
export const listConfigs = async (
  db: Executor,
  text: string | undefined,
  { after, limit }: PageRequest,
): Promise<Paged<ListedConfigRow>> => {
  const where = [sql`true`];
  if (text !== undefined)
    where.push(
      sql`(c.name ilike ${substring(text)} or starts_with(c.config_hash, ${text.toLowerCase()}))`,
    );
  if (after !== null) where.push(sql`c.id < ${after}::uuid`);
  const rows =
    await db.execute<ConfigQueryRow>(sql`select ${configColumns} from ${collectorConfig} c ${publisher}
    where ${sql.join(where, sql` and `)} order by c.id desc limit ${limit + 1}`);
  return paged(rows.map(listed), { after, limit });
};

/** Finds a config with its text and the email of its publisher. */
export const findListedConfig = async (
  db: Executor,
  id: string,
): Promise<(ListedConfigRow & { yaml: string }) | undefined> => {
  const [row] = await db.execute<ConfigQueryRow & { yaml: string }>(
    sql`select ${configColumns}, c.yaml from ${collectorConfig} c ${publisher} where c.id = ${id}::uuid`,
  );
  return row && listed(row);
};

/** A hash that hosts run and no published config has. */
export interface UnstoredHash {
  configHash: string;
  running: number;
  lastHeartbeatAt: Date | null;
}

/** Finds the hashes that hosts run and no published config has, those with the most hosts first, and the number of such hashes. */
export const findUnstoredHashes = async (
  db: Executor,
  rules: CountingRules,
  limit: number,
): Promise<{ rows: UnstoredHash[]; hashes: number }> => {
  const rows = await db.execute<{
    hash: string;
    running: number;
    last_at: string | null;
    hashes: number;
  }>(sql`
    select encode(running_config, 'hex') as hash, running, last_at, (count(*) over ())::int as hashes
    from (
      select running_config, count(*)::int as running, nullif(max(last_heartbeat_at), '-infinity') as last_at
      from fleet where running_config <> '\\x'::bytea and ${isCounted(rules)} group by 1
    ) grouped
    where not exists (select from ${collectorConfig} where config_hash = encode(running_config, 'hex'))
    order by running desc, running_config limit ${limit}`);
  return {
    rows: rows.map(({ hash, running, last_at }) => ({
      configHash: hash,
      running,
      lastHeartbeatAt: last_at === null ? null : new Date(last_at),
    })),
    hashes: rows[0]?.hashes ?? 0,
  };
};

/** The assignments of a config that one person made within one minute. */
export interface AssignmentBatchRow {
  from: Date;
  assignedBy: string;
  assignedByEmail: string | null;
  assigned: number;
  current: number;
}

/** Finds the newest batches of a config. */
export const findAssignmentBatches = async (
  db: Executor,
  configId: string,
  limit: number,
): Promise<AssignmentBatchRow[]> => {
  const rows = await db.execute<Omit<AssignmentBatchRow, "from"> & { from: string }>(sql`
    select b.*, p.primary_email as "assignedByEmail" from (
      select date_trunc('minute', assigned_at) as "from", assigned_by as "assignedBy", count(*)::int as assigned,
        (count(*) filter (where ended_at is null))::int as current
      from config_assignment where config_id = ${configId}::uuid group by 1, 2 order by 1 desc, 2 limit ${limit}
    ) b left join person p on p.user_id = b."assignedBy" order by 1 desc, 2`);
  return rows.map((row) => ({ ...row, from: new Date(row.from) }));
};

/** Selects assignments of a config; an absent property does not filter. */
export interface AssignmentFilter {
  /** Whether they have not been replaced or removed. */
  current?: boolean | undefined;
  assignedBy?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
}

/** An assignment of a config, and its host's progress with it. */
export interface AssignmentListRow {
  id: string;
  identityId: string;
  identity: string;
  deviceId: string;
  assignedAt: Date;
  assignedBy: string;
  assignedByEmail: string | null;
  endedAt: Date | null;
  progress: ConfigProgress | null;
  appliedAt: Date | null;
}

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
  if (since !== undefined) where.push(sql`a.assigned_at >= ${since.toISOString()}::timestamptz`);
  if (until !== undefined) where.push(sql`a.assigned_at < ${until.toISOString()}::timestamptz`);
  if (after !== null) where.push(sql`a.id < ${after}::uuid`);
  const isOpen = sql`a.ended_at is null and ${isCounted(rules)}`;
  const rows = await db.execute<
    Omit<AssignmentListRow, "assignedAt" | "endedAt" | "appliedAt"> &
      Record<"assigned_at", string> &
      Record<"ended_at" | "applied_at", string | null>
  >(sql`
    select a.id, a.identity_id as "identityId", f.identity, f.device_id as "deviceId", a.assigned_at,
      a.assigned_by as "assignedBy", p.primary_email as "assignedByEmail", a.ended_at,
      case when ${isOpen} then ${progressOf(rules)} end as progress,
      case when ${isOpen} and drift = 'in_sync' then nullif(${appliedAt}, '-infinity') end as applied_at
    from (select * from config_assignment a where ${sql.join(where, sql` and `)} order by id desc limit ${limit + 1}) a
    cross join lateral (select * from fleet where identity_id = a.identity_id limit 1) f
    left join person p on p.user_id = a.assigned_by
    order by a.id desc`);
  return paged(
    rows.map(({ assigned_at, ended_at, applied_at, ...row }) => ({
      ...row,
      assignedAt: new Date(assigned_at),
      endedAt: ended_at === null ? null : new Date(ended_at),
      appliedAt: applied_at === null ? null : new Date(applied_at),
    })),
    { after, limit },
  );
};
