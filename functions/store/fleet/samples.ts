/** How many hosts were in which state, every five minutes. */
import { sql } from "drizzle-orm";
import { type FleetState, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import type { Executor } from "../database/database.ts";
import type { Outage } from "./counted-time.ts";
import { timestampAt } from "./rows.ts";
import type { FleetSummary } from "./summary.ts";

/** The time between samples. */
export const sampleMs = 300_000;

/** The counts of a time. */
export interface FleetSample {
  at: Date;
  needsAttention: number;
  byState: ReadonlyMap<FleetState, number>;
}

const slotOf = (at: Date): Date => new Date(at.getTime() - (at.getTime() % sampleMs));

/** Whether the sample of these five minutes is still to be taken. */
export const isSampleDue = async (db: Executor, now: Date): Promise<boolean> => {
  const rows = await db.execute(
    sql`select from fleet_sample where slot = ${timestampAt(slotOf(now))}`,
  );
  return rows.length === 0;
};

/** Stores the counts of `at`, unless there is a sample of its five minutes. */
export const addSample = async (
  db: Executor,
  { needsAttention, byState }: Pick<FleetSummary, "needsAttention" | "byState">,
  at: Date,
): Promise<void> => {
  const states = `{${fleetStates.map((state) => byState.get(state) ?? 0).join(",")}}`;
  await db.execute(sql`insert into fleet_sample (slot, at, states, needs_attention)
    values (${timestampAt(slotOf(at))}, ${timestampAt(at)}, ${states}::int[], ${needsAttention}::int) on conflict do nothing`);
};

/** Finds a sample of each `stepMs` between two times, the first of it, in their order. */
export const findSamples = async (
  db: Executor,
  { from, to, stepMs }: { from: Date; to: Date; stepMs: number },
): Promise<FleetSample[]> => {
  const rows = await db.execute<{ at: string; states: number[]; needs_attention: number }>(sql`
    select distinct on (step) at, to_json(states) as states, needs_attention
    from (select *, floor(extract(epoch from slot) * 1000 / ${stepMs}::bigint) as step from fleet_sample) sample
    where slot >= ${timestampAt(from)} and at <= ${timestampAt(to)} order by step, slot`);
  return rows.map(({ at, states, needs_attention }) => ({
    at: new Date(at),
    needsAttention: needs_attention,
    byState: new Map(fleetStates.map((state, index) => [state, states[index] ?? 0])),
  }));
};

/** Finds the outages that touch a time, the oldest first. */
export const findOutagesBetween = async (
  db: Executor,
  { from, to }: { from: Date; to: Date },
): Promise<Pick<Outage, "beganAt" | "endedAt">[]> => {
  const rows = await db.execute<Record<"began_at" | "ended_at", string>>(sql`
    select began_at, ended_at from core_outage
    where ended_at > ${timestampAt(from)} and began_at < ${timestampAt(to)} order by began_at limit 1000`);
  return rows.map((row) => ({ beganAt: new Date(row.began_at), endedAt: new Date(row.ended_at) }));
};
