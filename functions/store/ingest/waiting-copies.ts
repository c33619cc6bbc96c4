import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import { arrayLiteral } from "../database/statements.ts";

/** A committer's transaction that waits for rows of a COPY. */
interface WaitingCopy {
  /** Changes as soon as the connection does something else. */
  copy: string;
  ended: boolean;
}

/** Returns the committers' transactions that wait for rows of a COPY, and ends those that are in `seen`. */
export const endWaitingCopies = async (
  db: Executor,
  seen: readonly string[],
): Promise<readonly WaitingCopy[]> =>
  db.execute<{ copy: string; ended: boolean }>(sql`
    select copy, case when copy = any(${arrayLiteral(seen)}::text[]) then pg_terminate_backend(pid) else false end as ended
    from (
      select pid, pid || '-' || extract(epoch from state_change) as copy from pg_stat_activity
      where application_name = 'svc-server ingest' and datname = current_database() and usename = current_user
        and state = 'active' and wait_event = 'ClientRead' and backend_xid is not null) as waiting`);
