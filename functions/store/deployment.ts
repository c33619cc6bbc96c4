import { deployment } from "../../drizzle/schema/deployment.ts";
import type { Executor } from "./database.ts";

/** The tenant that the database belongs to: `tenantId` if it belonged to nobody yet. Two cores at once agree. */
export const claimDeployment = async (db: Executor, tenantId: string, now: Date): Promise<string> => {
  await db.insert(deployment).values({ tenantId, createdAt: now }).onConflictDoNothing();
  const [row] = await db.select().from(deployment);
  return row?.tenantId ?? tenantId;
};
