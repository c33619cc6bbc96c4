import { and, eq, isNull } from "drizzle-orm";
import { collectorConfig, configAssignment } from "../../drizzle/schema/config.ts";
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
