import { eq, sql } from "drizzle-orm";
import { collectorIdentity } from "#drizzle/schema/enrollment.ts";
import { type ModelDatabase, playHistories } from "../fleet-sim/model/predict-health.ts";
import { stepsOf } from "../fleet-sim/scenario/host-steps.ts";
import { createHosts } from "../fleet-sim/scenario/hosts.ts";
import { simulationPlan } from "../fleet-sim/scenario/plan.ts";
import { stepsUntilEnd, withoutOverwritten } from "../fleet-sim/scenario/steps.ts";

/** The facts that pictures of the fleet need. */
export interface PicturedFleet {
  /** The time at which the fleet is in its state. */
  now: number;
  /** A host whose assigned config is broken. */
  identityId: string;
}

/**
 * Writes a simulated fleet of `count` hosts into a database that has only people: the same fleet for the same
 * count, on every machine and at any time.
 */
export const pictureFleet = async (
  database: ModelDatabase,
  count: number,
): Promise<PicturedFleet> => {
  const { db } = database;
  const plan = await simulationPlan({
    scenario: "fleet-1000",
    seed: 7,
    durationSeconds: 3600,
    hosts: count,
  });
  const hosts = createHosts(plan);
  const shown = hosts.find(
    ({ role, management }) => role === "config_broken" && management === "assigned",
  );
  const histories = hosts.map((host) =>
    withoutOverwritten({ host, steps: [...stepsUntilEnd(plan, stepsOf(plan, host))] }),
  );
  await playHistories(database, plan, histories);
  await countVolume(db, plan.endsAt);
  const rows = await db
    .select({ id: collectorIdentity.id })
    .from(collectorIdentity)
    .where(eq(collectorIdentity.identity, shown?.identity ?? ""));
  if (rows[0] === undefined) throw new Error("no host has a broken config that was assigned");
  return { now: plan.endsAt, identityId: rows[0].id };
};

/**
 * Counts envelopes for each host from its enrollment, two days ago at most, to the hour of its last one: more by day than at night. The
 * model's frames have no envelopes.
 */
const countVolume = async (db: ModelDatabase["db"], now: number): Promise<void> => {
  const at = sql`${new Date(now).toISOString()}::timestamptz`;
  await db.execute(sql`
    insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
    select host_id, kind, hour, envelopes, envelopes * bytes
    from (
      select h.host_id, kind, bytes, hour, (share * (30 + ascii(right(h.host_id, 1)) % 7) *
        (1.2 + sin((extract(hour from hour at time zone 'UTC') - 8) / 24 * 2 * pi()) + (n * 7 % 5) / 10.0))::bigint as envelopes
      from ingest_host h
      join collector_identity i on i.identity = h.host_id
      cross join generate_series(0, 47) n
      cross join lateral (select date_trunc('hour', ${at} - interval '1 second') - make_interval(hours => n) as hour) each
      cross join (values ('otel_span', 90, 610), ('otel_log', 20, 340), ('otel_metric', 6, 480)) kinds (kind, share, bytes)
      where hour >= date_trunc('hour', i.enrolled_at) and hour <= h.last_envelope_at
    ) counted
    where envelopes > 0`);
};
