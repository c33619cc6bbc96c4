import { and, eq } from "drizzle-orm";
import { ingestCursor } from "../../drizzle/schema/ingest.ts";
import type { Executor } from "./database.ts";

/** The last committed sequence of a queue; 0 for one that core has not seen. */
export const findCursor = async (db: Executor, hostId: string, queueId: Uint8Array): Promise<bigint> => {
  const [row] = await db
    .select({ cursor: ingestCursor.cursor })
    .from(ingestCursor)
    .where(and(eq(ingestCursor.hostId, hostId), eq(ingestCursor.queueId, queueId)));
  return row?.cursor ?? 0n;
};
