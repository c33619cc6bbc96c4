import { eq } from "drizzle-orm";
import { collectorIdentity } from "../../drizzle/schema/certificate.ts";
import { directorySync } from "../../drizzle/schema/operator.ts";
import { type ModelDatabase, playHistories } from "../fleet-sim/model/predict-health.ts";
import { stepsOf } from "../fleet-sim/scenario/host-steps.ts";
import { createHosts } from "../fleet-sim/scenario/hosts.ts";
import { simulationPlan } from "../fleet-sim/scenario/plan.ts";
import { historyOf, withoutOverwritten } from "../fleet-sim/scenario/steps.ts";

/** The facts that pictures of the fleet need. */
export interface PicturedFleet {
  /** The time at which the fleet is in its state. */
  now: number;
  /** A host with audit events. */
  identityId: string;
}

/**
 * Writes a simulated fleet of `count` hosts, and a directory sync, into a database that has only people: the same fleet for the same
 * count, on every machine and at any time.
 */
export const pictureFleet = async (database: ModelDatabase, count: number): Promise<PicturedFleet> => {
  const { db } = database;
  const plan = await simulationPlan({ scenario: "fleet-1000", seed: 7, durationSeconds: 3600, hosts: count });
  const hosts = createHosts(plan);
  const shown = hosts.find(({ role, management }) => role === "config_broken" && management === "assigned");
  const histories = hosts.map((host) => ({
    host,
    steps: withoutOverwritten([...historyOf(plan, stepsOf(plan, host))]),
  }));
  await playHistories(database, plan, histories);
  const syncedAt = new Date(plan.endsAt - 240_000);
  const sync = { syncs: 1, finishedAt: syncedAt, outcome: "synced" as const, syncedAt, failures: 0 };
  await db.insert(directorySync).values({ ...sync, missingGroups: [] });
  const rows = await db
    .select({ id: collectorIdentity.id })
    .from(collectorIdentity)
    .where(eq(collectorIdentity.identity, shown?.identity ?? ""));
  if (rows[0] === undefined) throw new Error("no host has a broken config that was assigned");
  return { now: plan.endsAt, identityId: rows[0].id };
};
