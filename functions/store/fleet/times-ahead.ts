/** Corrects times that were stored while a clock was ahead. */
import { type SQL, sql } from "drizzle-orm";
import { hourMs } from "#kit/clock.ts";
import type { Executor } from "../database/database.ts";
import { texts, timestamptz, uuids } from "../database/statements.ts";

/** Cores differ by less than this, because they read the database's clock. */
export const toleranceSeconds = 5;
/** Hosts in a transaction, so that their heartbeats do not wait for it. */
const batchMax = 500;

/** The times of hosts that decide on states, by table, with its column for the host's id or identity. */
const timesOfHosts: readonly { table: string; key: string; columns: readonly string[] }[] = [
  {
    table: "collector_health",
    key: "identity_id",
    columns: [
      "last_heartbeat_at",
      "version_since",
      "running_config_since",
      "config_invalid_since",
      "queue_at_risk_since",
      "renewal_failed_since",
      "recovered_at",
      "previous_boot_at",
    ],
  },
  {
    table: "collector_identity",
    key: "id",
    columns: ["enrolled_at", "revoked_at", "last_auth_failure_at"],
  },
  // Also ended assignments: a rollback restores the config that was assigned last.
  { table: "config_assignment", key: "identity_id", columns: ["assigned_at", "ended_at"] },
  { table: "rollout_target", key: "identity_id", columns: ["assigned_at", "applied_at"] },
  { table: "ingest_host", key: "host_id", columns: ["last_envelope_at"] },
];

/** Reports whether one of the times is ahead. */
const areAhead = (columns: readonly string[], now: Date): SQL =>
  sql`greatest(${sql.raw(columns.join(", "))}) > ${timestamptz(now, toleranceSeconds)}`;

/** Limits times to `now`. Keeps null, for which `least` would return `now`, and so revoke the host. */
const notAhead = (columns: readonly string[], now: Date): SQL =>
  sql.join(
    columns.map((name) => {
      const column = sql.raw(name);
      return sql`${column} = case when ${column} > ${timestamptz(now, toleranceSeconds)} then ${timestamptz(now)} else ${column} end`;
    }),
    sql`, `,
  );

/**
 * Sets the times of hosts that are ahead of the database's clock to `now`: until such a time has come, a dead host would seem healthy.
 * Corrects a batch of hosts after the id `after`, and locks their rows in the order of identities, as other writers do. Returns how many it
 * corrected, and the last id; undefined when there are none.
 */
export const correctHostTimes = async (
  tx: Executor,
  now: Date,
  after: string,
): Promise<{ hosts: number; last: string } | undefined> => {
  const at = timestamptz(now);
  const rows = await tx.execute<{ id: string; identity: string }>(sql`
    select identity_id as id, identity from fleet_status
    where ${areAhead(timesOfStatus, now)} and identity_id > ${after}::uuid order by identity_id limit ${batchMax}`);
  const last = rows.at(-1)?.id;
  if (last === undefined) return undefined;
  const ids = uuids(rows.map(({ id }) => id));
  const identities = texts(rows.map(({ identity }) => identity));
  await tx.execute(
    sql`select from collector_identity where id = any(${ids}) order by id for no key update`,
  );
  for (const { table, key, columns } of timesOfHosts) {
    const hosts = key === "host_id" ? identities : ids;
    const found = sql`${sql.raw(key)} = any(${hosts}) and ${areAhead(columns, now)}`;
    await tx.execute(
      sql`select from ${sql.raw(table)} where ${found} order by ${sql.raw(key)} for no key update`,
    );
    await tx.execute(sql`update ${sql.raw(table)} set ${notAhead(columns, now)} where ${found}`);
  }
  await tx.execute(
    sql`select from fleet_status where identity_id = any(${ids}) order by identity_id for no key update`,
  );
  await tx.execute(sql`update fleet_status set last_heartbeat_at = least(last_heartbeat_at, ${at}), last_envelope_at = least(last_envelope_at, ${at})
    where identity_id = any(${ids})`);
  await tx.execute(sql`select fleet_host_refresh(${ids})`);
  return { hosts: rows.length, last };
};

const timesOfStatus = [
  "last_heartbeat_at",
  "last_envelope_at",
  "enrolled_at",
  "config_assigned_at",
  "running_config_since",
  "version_since",
  "condition_since",
  "recovered_at",
  "last_auth_failure_at",
];

/**
 * Restarts the soak of a wave that would end later than a whole soak from `now`, and lets the gate of a rollout that began ahead of `now`
 * count every failure since. Returns how many it corrected.
 */
export const correctRollouts = async (db: Executor, now: Date): Promise<number> => {
  const at = timestamptz(now);
  const limit = timestamptz(now, toleranceSeconds);
  const waves = await db.execute(sql`
    update rollout_wave set soak_until = ${at} + make_interval(secs => soak_seconds)
    where completed_at is null and soak_until > ${limit} + make_interval(secs => soak_seconds) returning number`);
  // Before the gate: it still counts failures since its start, and an operator who resumes accepts them.
  await db.execute(sql`
    update rollout_target t set failed_at = ${at} + make_interval(secs => (t.failed_at > r.gate_from)::int * 0.001)
    from rollout r where r.id = t.rollout_id and r.ended_at is null and t.failed_at > ${limit}`);
  // A rollout that was resumed after a breach has accepted the failures until then.
  const rollouts = await db.execute(sql`
    update rollout set created_at = least(created_at, ${at}), updated_at = least(updated_at, ${at}),
      gate_from = case when gate_from = created_at then 'epoch' else least(gate_from, ${at}) end
    where ended_at is null and greatest(created_at, gate_from) > ${limit} returning id`);
  return waves.length + rollouts.length;
};

/** The times of operators' records that decide what core does, by table. */
const timesOfOperators: Readonly<Record<string, readonly string[]>> = {
  directory_sync: ["finished_at", "synced_at", "pushed_at"],
  audit_verification: ["checked_at", "checked_since", "pass_started_at"],
  core_report: ["reported_at"],
  applied_set: ["updated_at"],
  line_claim: ["taken_at"],
};

/**
 * Corrects operators' records. Until a time ahead has come, a sync of the directory or a pass over the audit log would seem new and delay
 * the next one, a core that has ended would seem to run, a released set could not be applied, and a bootstrap token would not expire.
 */
export const correctOperatorTimes = async (db: Executor, now: Date): Promise<void> => {
  const at = timestamptz(now);
  const limit = timestamptz(now, toleranceSeconds);
  for (const [table, columns] of Object.entries(timesOfOperators))
    await db.execute(
      sql`update ${sql.raw(table)} set ${notAhead(columns, now)} where ${areAhead(columns, now)}`,
    );
  await db.execute(sql`update bootstrap_token set expires_at = expires_at - (created_at - ${at}), created_at = ${at}
    where created_at > ${limit}`);
};

/** The tables of facts with the column of their end, and the columns that name a host and a fact. */
const untilTimes = {
  fleet_history: "identity_id",
  fleet_connection: "identity_id",
  fleet_silence: "identity_id, is_of_envelopes",
};

/**
 * Moves what happened while the clock was ahead to `now`: otherwise hosts would have their old facts until that time has come. If a host
 * changed several times, the first change has the facts before them all, and the others are deleted. Also deletes samples, figures and
 * checkpoints of times ahead, which core creates again when those times come.
 */
export const correctHistory = async (db: Executor, now: Date): Promise<void> => {
  const at = timestamptz(now);
  const limit = timestamptz(now, toleranceSeconds);
  for (const [table, key] of Object.entries(untilTimes)) {
    const name = sql.identifier(table);
    const isOfBatch = sql`identity_id in (select identity_id from ${name} where until_at > ${limit} limit ${batchMax})`;
    const correct = () =>
      db.execute(sql`
        with ahead as materialized (
          select ctid, row_number() over (partition by ${sql.raw(key)} order by until_at) as nth from ${name} where until_at >= ${at} and ${isOfBatch}),
        dropped as (delete from ${name} where ctid in (select ctid from ahead where nth > 1))
        update ${name} set until_at = ${at} where ctid in (select ctid from ahead where nth = 1) returning 1`);
    while ((await correct()).length > 0);
  }
  const hour = Math.floor((now.getTime() + toleranceSeconds * 1000) / hourMs);
  for (const [table, isAhead] of [
    ["fleet_sample", sql`slot > ${limit}`],
    ["fleet_hour", sql`hour > ${hour}::int`],
    ["fleet_checkpoint", sql`at > ${limit}`],
    ["queue_sample", sql`at > ${limit}`],
    ["fleet_change", sql`ended_at > ${limit}`],
    [
      "fleet_threshold",
      sql`from_at > ${limit} and from_at < (select max(from_at) from fleet_threshold)`,
    ],
  ] as const)
    await db.execute(sql`delete from ${sql.identifier(table)} where ${isAhead}`);
  await db.execute(sql`update fleet_threshold set from_at = ${at} where from_at > ${limit}`);
};
