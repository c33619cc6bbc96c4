import type { SqlClient } from "./pool/sql-client.ts";
import { isLockTimeout } from "./problem.ts";

/** A transaction that holds a lock for which a migration waits. Null if another role runs it and core may not read it. */
interface Blocker {
  /** 0 for a prepared transaction, which has no process. */
  pid: number;
  application: string | null;
  /** Since the transaction began. */
  ageSeconds: number | null;
  /** As in `pg_stat_activity`: `active`, `idle in transaction`. */
  state: string | null;
  /** The command of its last statement, without its arguments: `COPY`. */
  statement: string | null;
}

/** A lock was not free within the lock timeout. `blockers` is empty if they could not be read. The cause is the server's error. */
export class MigrationBlocked extends Error {
  override readonly name = "MigrationBlocked";
  readonly blockers: readonly Blocker[];

  constructor(blockers: readonly Blocker[], options: ErrorOptions) {
    super("another transaction uses a table that the migration changes", options);
    this.blockers = blockers;
  }
}

/** Any other word may be part of a faulty statement, such as a password. */
const commands = new Set(
  `ALTER ANALYZE CALL CLUSTER COMMENT COPY CREATE DECLARE DELETE DO DROP EXECUTE EXPLAIN FETCH GRANT INSERT LOCK MERGE REFRESH REINDEX
   REVOKE SAVEPOINT SELECT SET SHOW TABLE TRUNCATE UPDATE VACUUM VALUES WITH`.split(/\s+/),
);

/**
 * Runs `work`, which reports its connection's process before it takes locks. If a lock is not free in time, throws `MigrationBlocked`: a
 * second connection of the pool reads who holds it, because the server knows that only while the first one waits.
 */
export const namingBlockers = async <Result>(
  sql: SqlClient,
  work: (takesLocksAs: (pid: number) => void) => Promise<Result>,
): Promise<Result> => {
  let blockers: readonly Blocker[] = [];
  let isOver = false;
  let watching: Promise<void> = Promise.resolve();
  const watch = async (pid: number) => {
    while (!isOver) {
      await sql`select pg_sleep(0.05)`;
      const found = isOver ? [] : await readBlockers(sql, pid);
      if (found.length > 0) blockers = found;
    }
  };
  try {
    return await work((pid) => {
      watching = watch(pid).catch(() => undefined);
    });
  } catch (cause) {
    if (!isLockTimeout(cause)) throw cause;
    isOver = true;
    await watching;
    throw new MigrationBlocked(blockers, { cause });
  } finally {
    isOver = true;
    await watching;
  }
};

const readBlockers = async (sql: SqlClient, pid: number): Promise<Blocker[]> => {
  const rows = await sql<(Blocker & { word: string | null })[]>`
    select blocking.pid, coalesce(nullif(application_name, ''), backend_type) as application, state,
      extract(epoch from clock_timestamp() - xact_start)::int as "ageSeconds",
      upper(substring(query from '^(?:\\s|/\\*.*?\\*/|autovacuum:)*([[:alpha:]]+)')) as word
    from unnest(pg_blocking_pids(${pid})) as blocking (pid) left join pg_stat_activity using (pid)`;
  return rows.map(({ word, ...blocker }) => ({
    ...blocker,
    statement: word !== null && commands.has(word) ? word : null,
  }));
};

/** Describes what blocks a migration, and what to do, in one line. */
export const describeBlockers = ({ blockers }: MigrationBlocked): string => {
  const [first] = blockers;
  if (first === undefined) return "end it, or start again once it has ended";
  const pids = blockers.map(({ pid }) => pid).filter((pid) => pid > 0);
  const way =
    pids.length > 0
      ? `select pg_terminate_backend(${pids.join("), pg_terminate_backend(")})`
      : "rollback prepared";
  return `${blockers.map(describe).join(", ")}: end it with ${way}, or start again once it has ended`;
};

const describe = ({ pid, application, ageSeconds, state, statement }: Blocker) => {
  if (pid === 0) return "a prepared transaction (select * from pg_prepared_xacts)";
  const facts = [
    application,
    ageSeconds === null ? null : `open for ${ageSeconds} s`,
    state,
    statement === null ? null : `its last statement a ${statement}`,
  ].filter((fact) => fact !== null);
  return `process ${pid}${facts.length === 0 ? "" : ` (${facts.join(", ")})`}`;
};
