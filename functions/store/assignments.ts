import { and, eq, isNull } from "drizzle-orm";
import { collectorConfig, configAssignment } from "../../drizzle/schema/config.ts";
import { collectorHealth } from "../../drizzle/schema/fleet.ts";
import type { Executor } from "./database.ts";

/** The config that an identity should run now. */
export interface CurrentAssignment {
  configId: string;
  configHash: string;
  assignedAt: Date;
  /** The published text, verbatim. */
  yaml: string;
}

/** What is assigned to an identity at this moment; undefined when nothing is. */
export const findCurrentAssignment = async (
  db: Executor,
  identityId: string,
): Promise<CurrentAssignment | undefined> => {
  const [row] = await db
    .select({
      configId: collectorConfig.id,
      configHash: collectorConfig.configHash,
      assignedAt: configAssignment.assignedAt,
      yaml: collectorConfig.yaml,
    })
    .from(configAssignment)
    .innerJoin(collectorConfig, eq(collectorConfig.id, configAssignment.configId))
    .where(and(eq(configAssignment.identityId, identityId), isNull(configAssignment.endedAt)));
  return row;
};

/** An assignment's row. */
export type AssignmentRow = typeof configAssignment.$inferSelect;

/** The assignment of an identity that has not ended. Lock the identity before changing it. */
export const findOpenAssignment = async (db: Executor, identityId: string): Promise<AssignmentRow | undefined> => {
  const [row] = await db
    .select()
    .from(configAssignment)
    .where(and(eq(configAssignment.identityId, identityId), isNull(configAssignment.endedAt)));
  return row;
};

/** Ends the open assignment of an identity; false when there is none. */
export const endAssignment = async (db: Executor, identityId: string, endedAt: Date): Promise<boolean> => {
  const rows = await db
    .update(configAssignment)
    .set({ endedAt })
    .where(and(eq(configAssignment.identityId, identityId), isNull(configAssignment.endedAt)))
    .returning({ id: configAssignment.id });
  return rows.length > 0;
};

/** Inserts an open assignment. */
export const insertAssignment = async (db: Executor, row: AssignmentRow): Promise<void> => {
  await db.insert(configAssignment).values(row);
};

/** The last known good hash of an identity's newest heartbeat; null when it reports none. */
export const findLastKnownGoodHash = async (db: Executor, identityId: string): Promise<string | null> => {
  const [row] = await db
    .select({ hash: collectorHealth.lastKnownGoodConfigHash })
    .from(collectorHealth)
    .where(eq(collectorHealth.identityId, identityId));
  return row?.hash ?? null;
};
