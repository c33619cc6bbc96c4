import { sql } from "drizzle-orm";
import type { Executor } from "./database.ts";

/** The channel that every replica listens on, so that open ingest streams are rechecked at once. */
export const revocationChannel = "svc_revocation";

/** Tells every replica, with the commit, that something of this identity was revoked. */
export const notifyRevocation = async (db: Executor, identity: string): Promise<void> => {
  await db.execute(sql`select pg_notify(${revocationChannel}, ${identity})`);
};
