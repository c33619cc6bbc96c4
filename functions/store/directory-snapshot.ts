import { max } from "drizzle-orm";
import { person } from "../../drizzle/schema/operator.ts";
import type { Executor } from "./database.ts";

/** When people were last written from the directory; null when there are none. */
export const lastDirectorySnapshotAt = async (db: Executor): Promise<Date | null> => {
  const [row] = await db.select({ at: max(person.syncedAt) }).from(person);
  return row?.at ?? null;
};
