import { sql } from "drizzle-orm";
import { rollout, type StoredBreach } from "#drizzle/schema/rollout.ts";
import { type AuditEntry, recordAudits } from "#functions/domain/audit/audit-log.ts";
import type { Database, Executor } from "#functions/store/database/database.ts";
import { minuteMs, systemClock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { AuditAction } from "#proto/audit-actions.ts";
import { evidenceMax } from "#proto/rollout/rollout.ts";
import type { RolloutCondition, RolloutState } from "#proto/rollout/vocabulary.ts";
import { people } from "./people.ts";

/** The state of a seeded rollout, and how far its second wave of three is. */
interface SeededRollout {
  state: RolloutState;
  filter: string;
  wave: number;
  /** Minutes from its start until now. */
  age: number;
  /** One host in this many of the started waves failed; 0 for none. */
  failedEvery: number;
  /** The wave whose hosts have not all applied the config. */
  openWave?: number;
  reason?: { code: "gate_breached" | "operator"; detail: string | null };
}

/** The seeded rollouts, oldest first: one in each state. */
export const seededRollouts = [
  { state: "completed", filter: "", wave: 3, age: 2880, failedEvery: 37 },
  {
    state: "rolled_back",
    filter: "platform:linux/arm64",
    wave: 1,
    age: 1500,
    failedEvery: 3,
    reason: { code: "gate_breached", detail: null },
  },
  {
    state: "aborted",
    filter: "label.env:staging",
    wave: 2,
    age: 1440,
    failedEvery: 0,
    reason: { code: "operator", detail: "the change is not needed any more" },
  },
  {
    state: "paused",
    filter: "label.team:payments",
    wave: 2,
    age: 95,
    failedEvery: 4,
    reason: { code: "gate_breached", detail: null },
  },
  { state: "soaking", filter: "label.team:search", wave: 1, age: 12, failedEvery: 0 },
  {
    state: "running",
    filter: "platform:linux/amd64 -label.env:dev",
    wave: 2,
    age: 32,
    failedEvery: 0,
    openWave: 2,
  },
] as const satisfies readonly SeededRollout[];

/** Returns the id of the `n`th seeded row of a kind, four hexadecimal digits. */
export const seededId = (kind: string, n: number): string =>
  `01920000-0000-7000-${kind}-${n.toString(16).padStart(12, "0")}`;

const idOf = (n: number): string => seededId("b300", n);

/** Returns the id of the seeded rollout in a state. */
export const seededRolloutId = (state: (typeof seededRollouts)[number]["state"]): string =>
  idOf(seededRollouts.findIndex((planned) => planned.state === state));

const waves = [
  { number: 1, percent: 5, soak: 600 },
  { number: 2, percent: 25, soak: 1800 },
  { number: 3, percent: 100, soak: 0 },
] as const;

const beganAfter = 4 * minuteMs;

/** When core found the breach, after the start of the rollout. */
const breachAfter = ({ wave }: SeededRollout): number => (5 + 30 * (wave - 1)) * minuteMs;

/**
 * Writes one rollout in each state into a database with hosts and configs, with the events that core would have audited. No host is in
 * two of them. The same arguments give the same rows.
 */
export const seedRollouts = async (
  db: Database,
  { now, entropy }: { now: Date; entropy: Entropy },
): Promise<void> => {
  const configs = await db.execute<{ id: string; config_hash: string }>(
    sql`select id, config_hash from collector_config order by id desc limit ${seededRollouts.length}`,
  );
  for (const [index, planned] of seededRollouts.entries()) {
    const config = configs[index % configs.length];
    if (config === undefined) throw new Error("seed configs first");
    await db.transaction((tx) => seedOne(tx, { planned, index, config, now, entropy }));
  }
};

interface Seeding {
  planned: SeededRollout;
  index: number;
  config: { id: string; config_hash: string };
  now: Date;
  entropy: Entropy;
}

const endOf = ({ planned, now }: Seeding): Date | null => {
  if (!["completed", "rolled_back", "aborted"].includes(planned.state)) return null;
  return new Date(
    now.getTime() + ((planned.state === "completed" ? 90 : 14) - planned.age) * minuteMs,
  );
};

const startOf = ({ planned, now }: Seeding): number => now.getTime() - planned.age * minuteMs;

/** Returns the term of a time after the start. */
const after = (seeding: Seeding, ms: number) =>
  sql`${new Date(startOf(seeding) + ms).toISOString()}::timestamptz`;

const seedOne = async (tx: Executor, seeding: Seeding): Promise<void> => {
  const { planned, index, config } = seeding;
  const id = idOf(index);
  const start = new Date(startOf(seeding));
  const endedAt = endOf(seeding);
  await tx.insert(rollout).values({
    id,
    configId: config.id,
    filter: planned.filter,
    state: planned.state,
    wave: planned.wave,
    maxFailedPercent: 5,
    conditions: ["config_invalid", "stale", "rolled_back", "queue_at_risk", "not_applied"],
    onBreach: planned.state === "rolled_back" ? "roll_back" : "pause",
    gateFrom: start,
    breach: null,
    reasonCode: planned.reason?.code ?? null,
    reason: planned.reason?.detail ?? null,
    createdAt: start,
    createdBy: people.admin.userId,
    createdByWorkload: false,
    createdByName: people.admin.email,
    updatedAt: endedAt ?? seeding.now,
    endedAt,
  });
  await insertTargets(tx, seeding, id);
  await insertWaves(tx, seeding, id);
  if (planned.reason?.code === "gate_breached") {
    const at = new Date(startOf(seeding) + breachAfter(planned));
    const breach = await breachOf(tx, { id, wave: planned.wave, at });
    await tx.update(rollout).set({ breach }).where(sql`id = ${id}::uuid`);
  }
  await recordEvents(tx, seeding, id);
};

const insertTargets = async (tx: Executor, seeding: Seeding, id: string): Promise<void> => {
  const { planned, index } = seeding;
  const isReverted = planned.state === "rolled_back";
  const at = (ms: number) => after(seeding, ms);
  const stride = sql.raw(String(seededRollouts.length));
  // A host of a later wave waits, or was never reached; every `failedEvery`th host of the others failed.
  await tx.execute(sql`insert into rollout_target (rollout_id, place, identity_id, wave, status, reason, assigned_at, applied_at,
      failed_at, condition, condition_began_at, condition_detail, reverted_at)
    select ${id}::uuid, place, id, wave, status, reason,
      case when status not in ('pending', 'skipped') then ${at(minuteMs)} + later end,
      case when status in ('applied', 'reverted') and not failed then ${at(3 * minuteMs)} + later end,
      case when has_failed then ${at(beganAfter + minuteMs)} + later end,
      case when has_failed then (array['config_invalid', 'rolled_back', 'stale'])[1 + place % 3] end,
      case when has_failed then ${at(beganAfter)} + later + make_interval(secs => place % 60) end,
      case when has_failed then (array['sources[1].include: must be an array',
        'back on its last known good config', 'last heartbeat 240 s ago, threshold 180 s'])[1 + place % 3] end,
      case when status = 'reverted' then ${at(12 * minuteMs)} + later end
    from (select *, failed and status in ('failed', 'reverted') as has_failed from (
      select *, make_interval(mins => 30 * (wave - 1)) as later, case
        when is_skipped then 'skipped'
        when wave > ${planned.wave} then 'pending'
        when ${isReverted} then 'reverted'
        when failed then 'failed'
        when wave = ${planned.openWave ?? 0} and place % 2 = 0 then 'assigned'
        else 'applied' end as status,
        case when is_skipped then 'apply_desired_config_off' end as reason
      from (
        select place, id, place = hosts as is_skipped,
          case when place <= ceil(hosts * 0.05) then 1 when place <= ceil(hosts * 0.25) then 2 else 3 end as wave,
          case when ${planned.failedEvery} = 0 then false else place % greatest(1, ${planned.failedEvery}::int) = 0 end as failed
        from (
          select id, row_number() over (order by md5(id::text))::int as place, count(*) over ()::int as hosts
          from (select i.id, row_number() over (order by i.id) as n from collector_identity i) numbered
          where n % ${stride} = ${index}
        ) placed
      ) waves
    ) decided) ended`);
};

const insertWaves = async (tx: Executor, seeding: Seeding, id: string): Promise<void> => {
  const { planned, now } = seeding;
  const at = (ms: number) => after(seeding, ms);
  await tx.execute(sql`insert into rollout_wave (rollout_id, number, percent, soak_seconds, targets, pending, assigned, applied, failed,
      skipped, reverted, started_at, soak_until, completed_at)
    select ${id}::uuid, number, percent, soak, count(t.*), ${sql.join(
      ["pending", "assigned", "applied", "failed", "skipped", "reverted"].map(
        (status) => sql`count(*) filter (where t.status = ${status})`,
      ),
      sql`, `,
    )},
      case when number <= ${planned.wave} then ${at(0)} + make_interval(mins => 30 * (number - 1)) end,
      case when number = ${planned.wave} and ${planned.state === "soaking"} then ${now.toISOString()}::timestamptz + interval '7 minutes' end,
      case when number < ${planned.wave} or (number = ${planned.wave} and ${planned.state === "completed"})
        then ${at(0)} + make_interval(mins => 30 * number) end
    from (values ${sql.join(
      waves.map(
        ({ number, percent, soak }) => sql`(${number}::int, ${percent}::float8, ${soak}::int)`,
      ),
      sql`, `,
    )}) w (number, percent, soak)
    left join rollout_target t on t.rollout_id = ${id}::uuid and t.wave = w.number group by 1, 2, 3, 4`);
};

/** Records the events that core would have audited. */
const recordEvents = async (tx: Executor, seeding: Seeding, id: string): Promise<void> => {
  const { planned, config, entropy } = seeding;
  const start = startOf(seeding);
  const record = (time: number, entry: AuditEntry) =>
    recordAudits(tx, { clock: { ...systemClock, now: () => time }, entropy }, [entry]);
  const entry = entryOf(id);
  const waveHosts = await tx.execute<{ wave: number; hosts: number }>(
    sql`select number as wave, targets as hosts from rollout_wave where rollout_id = ${id}::uuid order by 1`,
  );
  const hosts = waveHosts.reduce((sum, wave) => sum + wave.hosts, 0);
  const { id: config_id, config_hash } = config;
  await record(
    start,
    entry("rollout.create", { config_id, config_hash, filter: planned.filter, hosts }),
  );
  for (const { wave, hosts: started } of waveHosts.filter(({ wave }) => wave <= planned.wave))
    await record(
      start + (wave - 1) * 30 * minuteMs + 1000,
      entry("rollout.wave_start", { wave, hosts: started }),
    );
  const breachedAt = start + breachAfter(planned);
  if (planned.reason?.code === "gate_breached")
    await record(breachedAt, entry("rollout.breach", { wave: planned.wave }));
  const last = lastActions[planned.state];
  if (last !== undefined)
    await record(endOf(seeding)?.getTime() ?? breachedAt + 1000, {
      ...entry(last, { hosts }),
      reason: planned.reason?.detail ?? null,
    });
};

const lastActions: Readonly<Partial<Record<RolloutState, AuditAction>>> = {
  completed: "rollout.complete",
  rolled_back: "rollout.roll_back",
  aborted: "rollout.abort",
  paused: "rollout.pause",
};

const entryOf =
  (id: string) =>
  (action: AuditAction, details: Record<string, unknown>): AuditEntry => {
    const isAutomatic = ["rollout.wave_start", "rollout.breach", "rollout.complete"].includes(
      action,
    );
    return {
      actor: isAutomatic
        ? { type: "system", id: "core", display: "core" }
        : { type: "operator", id: people.admin.userId, display: people.admin.email },
      action,
      target: { type: "rollout", id },
      outcome: "success",
      details,
    };
  };

/** Returns the breach of a wave from its failed targets. */
const breachOf = async (
  tx: Executor,
  { id, wave, at }: { id: string; wave: number; at: Date },
): Promise<StoredBreach> => {
  const failed = await tx.execute<
    Record<"id" | "identity" | "detail" | "began", string> & { condition: RolloutCondition }
  >(
    sql`select t.identity_id as id, i.identity, t.condition, t.condition_detail as detail, t.condition_began_at as began
      from rollout_target t join collector_identity i on i.id = t.identity_id
      where rollout_id = ${id}::uuid and wave = ${wave} and condition is not null order by place`,
  );
  const [counted] = await tx.execute<{ assigned: number }>(
    sql`select count(assigned_at)::int as assigned from rollout_target where rollout_id = ${id}::uuid and wave = ${wave}`,
  );
  return {
    wave,
    failed: failed.length,
    failedPercent: (failed.length / (counted?.assigned || 1)) * 100,
    at: at.toISOString(),
    evidence: failed.slice(0, evidenceMax).map(({ id: identityId, began, ...row }) => ({
      identityId,
      identity: row.identity,
      condition: row.condition,
      detail: row.detail,
      beganAt: new Date(began).toISOString(),
    })),
  };
};
