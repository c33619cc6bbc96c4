import { eq, sql } from "drizzle-orm";
import { collectorConfig } from "#drizzle/schema/config.ts";
import { collectorIdentity } from "#drizzle/schema/enrollment.ts";
import { directorySync } from "#drizzle/schema/operator.ts";
import { type ModelDatabase, playHistories } from "../fleet-sim/model/predict-health.ts";
import { stepsOf } from "../fleet-sim/scenario/host-steps.ts";
import { createHosts } from "../fleet-sim/scenario/hosts.ts";
import { simulationPlan } from "../fleet-sim/scenario/plan.ts";
import { stepsUntilEnd, withoutOverwritten } from "../fleet-sim/scenario/steps.ts";
import { insertEnrollments } from "../lab/seed-enrollment.ts";

/** The facts that pictures of the fleet need. */
export interface PicturedFleet {
  /** The time at which the fleet is in its state. */
  now: number;
  /** A host with audit events. */
  identityId: string;
  /** The config that is being rolled out. */
  configId: string;
}

/**
 * Writes a simulated fleet of `count` hosts, and a directory sync, into a database that has only people: the same fleet for the same
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
  const histories = hosts.map((host) => ({
    host,
    steps: withoutOverwritten([...stepsUntilEnd(plan, stepsOf(plan, host))]),
  }));
  await playHistories(database, plan, histories);
  await recordEnrollments(db, plan.endsAt);
  await countVolume(db, plan.endsAt);
  const syncedAt = new Date(plan.endsAt - 240_000);
  const sync = {
    syncs: 1,
    finishedAt: syncedAt,
    outcome: "synced" as const,
    syncedAt,
    failures: 0,
  };
  await db.insert(directorySync).values({ ...sync, missingGroups: [] });
  const rows = await db
    .select({ id: collectorIdentity.id })
    .from(collectorIdentity)
    .where(eq(collectorIdentity.identity, shown?.identity ?? ""));
  if (rows[0] === undefined) throw new Error("no host has a broken config that was assigned");
  const configs = await db
    .select({ id: collectorConfig.id })
    .from(collectorConfig)
    .where(eq(collectorConfig.configHash, plan.configs.current.hash));
  if (configs[0] === undefined) throw new Error("the current config is not published");
  return { now: plan.endsAt, identityId: rows[0].id, configId: configs[0].id };
};

/** Writes what core records of an enrollment besides its rows: the audit event, and the counts of policy and token, which is valid. */
const recordEnrollments = async (db: ModelDatabase["db"], now: number): Promise<void> => {
  const hosts = await db.select().from(collectorIdentity);
  await insertEnrollments(
    db,
    "8000",
    hosts.map((host, index) => ({
      ...host,
      address: `10.20.${index >> 8}.${index & 255}`,
      isReenrolled: false,
    })),
  );
  await db.execute(sql`update enrollment_policy p set enrollment_count =
    (select count(*) from collector_identity i where i.policy_id = p.id)`);
  await db.execute(sql`update bootstrap_token t set use_count = used.uses, last_used_at = used.at, last_used_address = '10.20.0.7',
      expires_at = ${new Date(now + 7 * 86_400_000).toISOString()}::timestamptz
    from (select token_id, count(*) as uses, max(enrolled_at) as at from collector_identity group by token_id) used
    where used.token_id = t.id`);
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
