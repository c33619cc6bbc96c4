import { count, isNull } from "drizzle-orm";
import { collectorIdentity } from "../../drizzle/schema/certificate.ts";
import type { Executor } from "./database.ts";

/** How many identities are enrolled and not revoked. */
export const countCollectors = async (db: Executor): Promise<number> => {
  const [row] = await db
    .select({ enrolled: count() })
    .from(collectorIdentity)
    .where(isNull(collectorIdentity.revokedAt));
  return row?.enrolled ?? 0;
};
