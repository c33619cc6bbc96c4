/**
 * The fleet at past times. Invariants:
 * - A host at a time has the facts of the first row of `fleet_history` that ends after it, or else those of `fleet_host`. Its core and
 *   subnet are those of the first row of `fleet_connection` that ends after it, or else those of `fleet_status`.
 * - Its last heartbeat is the start of the silence around that time, or else that time itself: to the thresholds of then, an earlier
 *   heartbeat makes no difference. The size of its queue is known only in a silence.
 * - What depends on time alone is not stored: conditions.ts decides it for that time.
 */
import { type SQL, sql } from "drizzle-orm";
import { hourMs } from "#kit/clock.ts";
import { type FleetState, factColumns, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  asDate,
  asIs,
  hasRows,
  orNull,
  readOne,
  readRows,
  readScalar,
  readScalars,
  timestamptz,
} from "../database/statements.ts";
import { never } from "./columns/expression.ts";
import type { FleetThresholds } from "./conditions.ts";
import type { Outage } from "./counted-time.ts";
import type { FleetSummary } from "./summary.ts";

/** The columns that `fleet_history` and `fleet_host` share. */
const factNames = [
  "certificate_id",
  "successor_id",
  "desired_config",
  "running_config",
  "last_known_good_config",
  ...factColumns.times,
  ...factColumns.amounts,
  ...factColumns.flags,
  ...factColumns.names,
];
const facts = sql.raw(factNames.join(", "));
const factsOfHost = sql.raw(factNames.map((name) => `f.${name}`).join(", "));

const ofProcess = sql.raw(
  Object.values(reportedNumbers.process)
    .map(({ column }) => `-1::bigint as ${column}`)
    .join(", "),
);

/** Returns the hosts that were enrolled at a time, with their columns of `fleet` as of then. Figures without a history are unknown. */
export const hostsAt = (at: Date): SQL => {
  const time = timestamptz(at);
  /** Joins the start of the silence around the time; null without one. */
  const silence = (name: "unheard" | "unsent") => sql`left join lateral (
      select from_at, queue_bytes from fleet_silence
      where identity_id = s.identity_id and is_of_envelopes = ${sql.raw(String(name === "unsent"))} and until_at > ${time}
      order by until_at limit 1
    ) ${sql.identifier(name)} on ${sql.identifier(name)}.from_at <= ${time}`;
  return sql`(
    select s.identity_id, s.identity, s.enrolled_at,
      coalesce(unheard.from_at, least(s.last_heartbeat_at, ${time})) as last_heartbeat_at,
      coalesce(unsent.from_at, least(s.last_envelope_at, date_trunc('second', ${time}))) as last_envelope_at,
      case when unheard.from_at is not null then unheard.queue_bytes when s.last_heartbeat_at <= ${time} then s.queue_bytes
        else -1 end as queue_bytes,
      -1 as queue_records, -1 as queue_oldest_seconds, -1 as last_ack_seconds, -1::bigint as queue_bytes_max,
      ${ofProcess}, null::int as starts,
      -1::bigint as lost_records, ${never} as last_auth_failure_at,
      fleet_hash_key(f.desired_config) as desired_config_key, fleet_hash_key(f.running_config) as running_config_key,
      fleet_hash_key(f.last_known_good_config) as last_known_good_config_key, n.device_id, n.hostname, n.search, s.policy_id, s.agent, c.core, c.subnet,
      ${factsOfHost}
    from fleet_status s
    -- One lookup by key for each host and table, whatever the tables hold.
    cross join lateral (select identity_id, device_id, hostname, search from fleet_host where identity_id = s.identity_id limit 1) n
    cross join lateral (
      (select until_at, ${facts} from fleet_history where identity_id = s.identity_id and until_at > ${time} order by until_at limit 1)
      union all
      select 'infinity', ${facts} from fleet_host where identity_id = s.identity_id
      order by until_at limit 1
    ) f
    cross join lateral (
      (select until_at, core, subnet from fleet_connection where identity_id = s.identity_id and until_at > ${time}
        order by until_at limit 1)
      union all
      select 'infinity', s.core, s.subnet
      order by until_at limit 1
    ) c
    ${silence("unheard")}
    ${silence("unsent")}
    where s.enrolled_at <= ${time}
  ) fleet`;
};

/** A range of time: after the first one, until the other, or until now. */
export interface ChangedBetween {
  from: Date;
  until: Date | null;
}

const endedBetween = ({ from, until }: ChangedBetween): SQL =>
  sql`until_at > ${timestamptz(from)} and until_at <= ${until ? timestamptz(until) : sql`'infinity'`}`;

/** Returns the facts that changed hosts had at the start of the range. */
export const factsBefore = (between: ChangedBetween): SQL => sql`(
    select distinct on (identity_id) identity_id, null as identity, fleet_hash_key(desired_config) as desired_config_key,
      fleet_hash_key(running_config) as running_config_key, fleet_hash_key(last_known_good_config) as last_known_good_config_key, ${facts}
    from fleet_history where ${endedBetween(between)} order by identity_id, until_at
  ) facts`;

/** Returns the core and subnet that changed hosts had at the start of the range. */
export const connectionsBefore = (between: ChangedBetween): SQL => sql`(
    select distinct on (identity_id) identity_id, null as identity, core, subnet
    from fleet_connection where ${endedBetween(between)} order by identity_id, until_at
  ) connections`;

/** Returns the silences of heartbeats or envelopes that began before the range and ended in it. */
export const silencesBefore = (
  between: ChangedBetween,
  { areOfEnvelopes }: { areOfEnvelopes: boolean },
): SQL => sql`(
    select identity_id, null as identity, queue_bytes, from_at as last_heartbeat_at, from_at as last_envelope_at from fleet_silence
    where ${endedBetween(between)} and from_at <= ${timestamptz(between.from)} and is_of_envelopes = ${sql.raw(String(areOfEnvelopes))}
  ) silences`;

/** Counts the changes and the ended silences of all hosts, each up to `max`. */
export const countChanges = (
  db: Executor,
  between: ChangedBetween,
  max: number,
): Promise<number> => {
  const counted = (table: string) =>
    sql`(select count(*) from (select from ${sql.identifier(table)} where ${endedBetween(between)} limit ${max}) ended)`;
  return readScalar(
    db,
    Number,
    sql`select ${counted("fleet_history")} + ${counted("fleet_connection")} + ${counted("fleet_silence")}`,
  );
};

/** Finds every version and platform of these hosts, in one pass. */
export const findPastNames = (db: Executor, hosts: SQL) =>
  readOne(
    db,
    { versions: asIs<string[]>, platforms: asIs<string[]> },
    sql`
    select coalesce(json_agg(distinct version), '[]') as versions, coalesce(json_agg(distinct platform), '[]') as platforms from ${hosts}`,
  );

/** Stores the thresholds if they have changed; the first ones begin history. */
export const recordThresholds = async (
  db: Executor,
  thresholds: FleetThresholds,
  now: Date,
): Promise<void> => {
  await db.execute(sql`
    insert into fleet_threshold (from_at, thresholds, forwarding_seconds)
    select ${timestamptz(now)}, ${JSON.stringify(thresholds)}::jsonb, ${thresholds.forwardingSeconds}::int
    where ${JSON.stringify(thresholds)}::jsonb is distinct from (select thresholds from fleet_threshold order by from_at desc limit 1)
    on conflict do nothing`);
};

/** Finds the thresholds that applied at a time; undefined before history begins. */
export const findThresholdsAt = async (
  db: Executor,
  at: Date,
): Promise<FleetThresholds | undefined> => {
  const [thresholds] = await readScalars(
    db,
    asIs<FleetThresholds>,
    sql`select thresholds from fleet_threshold where from_at <= ${timestamptz(at)} order by from_at desc limit 1`,
  );
  return thresholds;
};

/** Finds when history begins; null before the first thresholds are recorded. */
export const findHistoryStart = (db: Executor): Promise<Date | null> =>
  readScalar(db, orNull(asDate), sql`select min(from_at) from fleet_threshold`);

/** Rows of a table that a statement deletes at most. */
const deletedMax = 10_000;

/** Deletes a bounded number of rows that ended before `keptFrom` and returns the number. Keeps the thresholds of that time. */
export const deleteOldHistory = async (db: Executor, keptFrom: Date): Promise<number> => {
  const from = timestamptz(keptFrom);
  let deleted = 0;
  for (const [table, ended] of [
    ["fleet_history", sql`until_at < ${from}`],
    ["fleet_silence", sql`until_at < ${from}`],
    ["fleet_connection", sql`until_at < ${from}`],
    ["fleet_sample", sql`slot < ${from}`],
    ["fleet_change", sql`began_at < ${from}`],
    ["fleet_change_hour", sql`hour < ${Math.floor(keptFrom.getTime() / hourMs)}::int`],
    // A base is at most a day older than its differences.
    ["fleet_checkpoint", sql`at < ${timestamptz(keptFrom, -86_400)}`],
    [
      "fleet_threshold",
      sql`from_at < (select max(from_at) from fleet_threshold where from_at <= ${from})`,
    ],
  ] as const) {
    const rows = await db.execute(sql`delete from ${sql.identifier(table)}
      where ctid in (select ctid from ${sql.identifier(table)} where ${ended} limit ${deletedMax}) returning 1`);
    deleted += rows.length;
  }
  return deleted;
};

/** The time between samples of the number of hosts in each state. */
export const sampleMs = 300_000;

/** The counts of a time. */
export interface FleetSample {
  at: Date;
  needsAttention: number;
  /** Null in a sample of an older core. */
  forwarding: number | null;
  byState: ReadonlyMap<FleetState, number>;
}

const slotOf = (at: Date): Date => new Date(at.getTime() - (at.getTime() % sampleMs));

/** Reports whether these five minutes still lack a sample. */
export const isSampleDue = async (db: Executor, now: Date): Promise<boolean> =>
  !(await hasRows(
    db.execute(sql`select from fleet_sample where slot = ${timestamptz(slotOf(now))}`),
  ));

/** The states in the order in which samples have them: a new one last, as earlier samples lack it. */
const sampledStates: readonly FleetState[] = [
  ...fleetStates.filter((state) => state !== "component_unhealthy"),
  "component_unhealthy",
];

/** Stores the counts of `at`, unless its five minutes have a sample. */
export const addSample = async (
  db: Executor,
  {
    needsAttention,
    byForwarding,
    byState,
  }: Pick<FleetSummary, "needsAttention" | "byForwarding" | "byState">,
  at: Date,
): Promise<void> => {
  const states = arrayLiteral(sampledStates.map((state) => String(byState.get(state) ?? 0)));
  await db.execute(sql`insert into fleet_sample (slot, at, states, needs_attention, forwarding)
    values (${timestamptz(slotOf(at))}, ${timestamptz(at)}, ${states}::int[], ${needsAttention}::int, ${byForwarding.forwarding}::int) on conflict do nothing`);
};

/** Finds the first sample of each `stepMs` between two times, in order. */
export const findSamples = async (
  db: Executor,
  { from, to, stepMs }: { from: Date; to: Date; stepMs: number },
): Promise<FleetSample[]> => {
  const rows = await readRows(
    db,
    { at: asDate, states: asIs<number[]>, needsAttention: Number, forwarding: orNull(Number) },
    sql`
    select distinct on (step) at, to_json(states) as states, needs_attention, forwarding
    from (select *, floor(extract(epoch from slot) * 1000 / ${stepMs}::bigint) as step from fleet_sample) sample
    where slot >= ${timestamptz(from)} and at <= ${timestamptz(to)} order by step, slot`,
  );
  return rows.map(({ states, ...sample }) => ({
    ...sample,
    byState: new Map(sampledStates.map((state, index) => [state, states[index] ?? 0])),
  }));
};

/** Finds the outages that touch a time, the oldest first. */
export const findOutagesBetween = (
  db: Executor,
  { from, to }: { from: Date; to: Date },
): Promise<Pick<Outage, "beganAt" | "endedAt">[]> =>
  readRows(
    db,
    { beganAt: asDate, endedAt: asDate },
    sql`
    select began_at, ended_at from core_outage
    where ended_at > ${timestamptz(from)} and began_at < ${timestamptz(to)} order by began_at limit 1000`,
  );
