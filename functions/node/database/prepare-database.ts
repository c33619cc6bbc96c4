import type { Client } from "pg";
import { callDeadlineMs } from "#functions/store/database/call-limits.ts";
import { setForSession } from "#functions/store/database/connection-settings.ts";
import { claimDeployment, connectDatabase } from "#functions/store/database/database.ts";
import { migrate, SchemaMismatch } from "#functions/store/database/migrate.ts";
import {
  describeBlockers,
  MigrationBlocked,
} from "#functions/store/database/migration-blockers.ts";
import { loginRefusalOf } from "#functions/store/database/pool/login-refusal.ts";
import { databaseProblem, hasState } from "#functions/store/database/problem.ts";
import { selectFaults } from "#functions/store/database/server-settings.ts";
import {
  destroyClient,
  lastResult,
  openCopyClient,
} from "#functions/store/ingest/copy-transaction.ts";
import type { Clock } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { variableFault } from "#kit/env.ts";
import type { Log } from "#kit/log.ts";
import { readMigrations } from "../read-migrations.ts";
import { StartFault } from "../run-configured.ts";
import type { CoreServers, DatabaseVariable, NamedServers } from "./database-servers.ts";

const timeoutMs = 60_000;
const retryDelayMs = 500;

/**
 * Migrates the database, retrying for up to a minute while it is unavailable, and claims it for the tenant. Throws `ConfigError` when it
 * belongs to another tenant, or cannot be used with this URL, and `StartFault` when it stays unavailable.
 */
export const prepareDatabase = async (
  { requests, sessions }: CoreServers,
  { tenantId, clock, log }: { tenantId: string; clock: Clock; log: Log },
): Promise<void> => {
  const migrations = await readMigrations();
  // Without a deadline, because the migration of a large table may take long. The second connection observes what the first waits for.
  const { sql, db, close } = connectDatabase({ ...sessions, connectionsMax: 2, deadlineMs: 0 });
  try {
    await untilAvailable(sessions.variable, { clock, log }, async () => {
      await checkPoolers({ requests, sessions }, log);
      await checkSettings({ requests, sessions });
      const { applied } = await migrate(sql, migrations);
      if (applied.length > 0) log.info({ applied }, "database migrated");
    });
    const owner = await claimDeployment(db, tenantId, new Date(clock.now()));
    if (owner !== tenantId) {
      throw variableFault("SVC_TENANT_ID", "is not the tenant that this database belongs to");
    }
  } finally {
    await close(1);
  }
};

/** Runs a part of a start, again for up to a minute while the database is unavailable. Throws `StartFault` when it stays so. */
export const untilAvailable = async <Result>(
  variable: DatabaseVariable,
  { clock, log }: { clock: Pick<Clock, "monotonic" | "sleep">; log: Pick<Log, "warn"> },
  run: () => Promise<Result>,
): Promise<Result> => {
  const deadline = clock.monotonic() + timeoutMs;
  for (;;) {
    try {
      return await withSettingFaults(variable, run);
    } catch (err) {
      if (databaseProblem(err)?.code !== "database_unavailable") throw err;
      if (clock.monotonic() > deadline) throw startFault(err, variable);
      if (err instanceof MigrationBlocked)
        log.warn({ err, blockers: err.blockers }, `${err.message}; trying again`);
      else log.warn({ err }, "the database is not available yet");
      await clock.sleep(retryDelayMs);
    }
  }
};

/** Runs a command that needs the database. Turns a failure to use it into one line that names the setting, `variable`. */
export const withDatabaseFaults = async <Result>(
  variable: DatabaseVariable,
  run: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await withSettingFaults(variable, run);
  } catch (err) {
    throw databaseProblem(err)?.code === "database_unavailable" ? startFault(err, variable) : err;
  }
};

/** Creates a fault from the code of an error, whose message may have the URL. */
const startFault = (err: unknown, variable: DatabaseVariable): StartFault => {
  if (err instanceof MigrationBlocked)
    return new StartFault(`${variable}: ${err.message}, for a minute: ${describeBlockers(err)}`, {
      cause: err,
    });
  const code = errorCode(databaseProblem(err)?.options.cause);
  return new StartFault(`${variable}: the database is not available${code ? ` (${code})` : ""}`, {
    cause: err,
  });
};

/**
 * Throws `ConfigError`, with the variable to set or to change, if a pooler prevents core's work: LISTEN, advisory locks, prepared statements and
 * COPY need a session, everything else a transaction. Also if the two URLs lead to different databases.
 */
const checkPoolers = async ({ requests, sessions }: CoreServers, log: Pick<Log, "warn">) => {
  const [url, mode] = await withSettingFaults(requests.variable, () => locatePooler(requests));
  if (mode === "statement")
    throw variableFault(
      "SVC_DATABASE_URL",
      "leads to a pooler in statement mode: core needs transactions",
    );
  if (sessions.variable === "SVC_DATABASE_URL") {
    if (mode === "transaction")
      throw variableFault(
        "SVC_DATABASE_SESSION_URL",
        `is required: SVC_DATABASE_URL leads to a pooler in transaction mode; ${remedy}`,
      );
    return;
  }
  const [sessionUrl, sessionMode] = await withSettingFaults(sessions.variable, () =>
    locatePooler(sessions),
  );
  if (sessionMode !== "session")
    throw variableFault(
      "SVC_DATABASE_SESSION_URL",
      `leads to a pooler in transaction or statement mode; ${remedy}`,
    );
  if (!(await isSameDatabase(url, sessionUrl)))
    throw variableFault(
      "SVC_DATABASE_SESSION_URL",
      "leads to another database than SVC_DATABASE_URL",
    );
  if (!(await hasStatementTimeout(url)))
    log.warn({}, "the role of SVC_DATABASE_URL has no statement_timeout: see docs/database.md");
};

/** Throws `ConfigError`, with the command that fixes it, for a setting that core cannot use and cannot change. Call it before the migration. */
const checkSettings = async ({ requests, sessions }: CoreServers) => {
  for (const { variable, servers } of new Set([requests, sessions]))
    await withSettingFaults(variable, async () => {
      // Behind a pooler in transaction mode nothing may be left in a session.
      const setup = variable === sessions.variable ? setForSession(callDeadlineMs.api) : "";
      const statements = `${setup}; ${selectFaults}`;
      const [found] = await withClient(await servers.locate(), (client) =>
        lastResult(client, statements),
      );
      if (found !== undefined) throw variableFault(variable, `leads to ${found.fault}`);
    });
};

const locatePooler = async ({
  servers,
}: NamedServers): Promise<[url: string, mode: PoolerMode]> => {
  const url = await servers.locate();
  return [url, await findPoolerMode(url)];
};

const remedy = "name PostgreSQL itself, or a pooler in session mode";

/** Any constant works if it is not that of another lock. */
const lockClass = 1_734_028;

/** A lock that one connection holds is taken for the other only in the same database of the same server. */
const isSameDatabase = (url: string, sessionUrl: string) =>
  withClient(sessionUrl, async (session) => {
    const { rows } = await session.query<{ pid: number }>(
      `select pg_backend_pid() as pid, pg_advisory_lock(${lockClass}, pg_backend_pid())`,
    );
    const pid = rows[0]?.pid ?? 0;
    try {
      return await withClient(url, async (client) => {
        const attempt = await client.query<{ acquired: boolean }>(
          `select pg_try_advisory_xact_lock(${lockClass}, ${pid}) as acquired`,
        );
        return attempt.rows[0]?.acquired === false;
      });
    } finally {
      await session.query(`select pg_advisory_unlock(${lockClass}, ${pid})`);
    }
  });

/** Behind a pooler core sets no timeout for a single statement: nothing of it may be left to other clients. */
const hasStatementTimeout = (url: string) =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ statement_timeout: string }>("show statement_timeout");
    return rows[0]?.statement_timeout !== "0";
  });

const withClient = async <Result>(
  url: string,
  work: (client: Client) => Promise<Result>,
): Promise<Result> => {
  const client = await openCopyClient(url);
  try {
    return await work(client);
  } finally {
    destroyClient(client);
  }
};

/** How long a connection keeps its server process: until it closes, or for a transaction or a statement. */
type PoolerMode = "session" | "transaction" | "statement";

/** Statements of each connection behind a pooler. One that keeps no session gives one of them another process, if only by chance. */
const roundsOfPooler = 24;
/** After this time a pooler has no free connection: the check closes its connections and rejects. */
const checkTimeoutMs = 20_000;

/**
 * Returns what a connection to `url` keeps. "transaction" and "statement" are proven: one connection was served by two processes, or two
 * connections by one. "session" is certain without a pooler, whose connections know the process that serves them; with one it means that
 * two connections, idle and in transactions by turns, kept their processes throughout. Rejects within 20 s without an answer.
 */
export const findPoolerMode = async (url: string): Promise<PoolerMode> => {
  const clients: Client[] = [];
  const timer = setTimeout(() => clients.forEach(destroyClient), checkTimeoutMs);
  try {
    while (clients.length < 2) clients.push(await openCopyClient(url));
    const [first, second] = clients as [Client, Client];
    const process = await backendOf(first);
    if (
      process === announcedProcess(first) &&
      (await backendOf(second)) === announcedProcess(second)
    )
      return "session";
    if (!(await allowsTransactions(url))) return "statement";
    return (await keepProcesses(first, second)) ? "session" : "transaction";
  } finally {
    clearTimeout(timer);
    for (const client of clients) destroyClient(client);
  }
};

/** Uses both connections irregularly: a pooler that assigns processes in turn, or the last one first, could keep them in a regular pattern. */
const keepProcesses = async (first: Client, second: Client) => {
  const seen = [new Set<number>(), new Set<number>()] as const;
  /** Uses one of the connections. Reports whether both still have their processes. */
  const isKept = async (at: 0 | 1) => {
    seen[at].add(await backendOf(at === 0 ? first : second));
    return seen[0].size <= 1 && seen[1].size <= 1 && seen[0].isDisjointFrom(seen[1]);
  };
  for (let round = 0; round < roundsOfPooler; round++) {
    const inTransaction = round % 2 === 0;
    if (!(await isKept(0))) return false;
    if (inTransaction) await second.query("begin");
    // The second before the first: in a pool of one connection the first would wait for the second's transaction.
    if (!(await isKept(1)) || !(await isKept(0))) return false;
    if (inTransaction) await second.query("commit");
    for (let extra = round % 3; extra > 0; extra--) if (!(await isKept(1))) return false;
  }
  return true;
};

/** A pooler in statement mode closes a connection that begins a transaction. */
const allowsTransactions = async (url: string) => {
  const client = await openCopyClient(url);
  try {
    await client.query("begin; commit");
    await client.query("begin");
    await client.query("commit");
    return true;
  } catch (cause) {
    if (/statement pool/i.test((cause as Error).message)) return false;
    throw cause;
  } finally {
    destroyClient(client);
  }
};

/** Returns the process that the server named when the connection was opened. A pooler names one of its own. */
const announcedProcess = (client: Client) =>
  (client as Client & { processID: number | null }).processID;

const backendOf = async (client: Client) =>
  (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid ?? 0;

const notOwner =
  "names a role that may not create or change core's tables: it must own them, and the schema";

/** Runs `run`. Throws `ConfigError` with `variable` for a fault that only another value of it fixes. */
const withSettingFaults = async <Result>(
  variable: DatabaseVariable,
  run: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await run();
  } catch (error) {
    const refusal = loginRefusalOf(error);
    if (refusal !== undefined) throw variableFault(variable, refusal);
    if (hasState(error, /^42501$/)) throw variableFault(variable, notOwner);
    if (error instanceof SchemaMismatch) throw variableFault(variable, error.message);
    throw error;
  }
};
