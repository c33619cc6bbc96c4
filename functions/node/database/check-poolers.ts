import type { Client } from "pg";
import { ConfigError } from "../../../kit/env.ts";
import type { Log } from "../../../kit/log.ts";
import { callDeadlineMs } from "../../store/database/call-limits.ts";
import { selectFaults } from "../../store/database/server-settings.ts";
import { setForSession } from "../../store/database/session-settings.ts";
import { destroyClient, lastResult, openCopyClient } from "../../store/ingest/copy-transaction.ts";
import type { CoreServers, DatabaseVariable, NamedServers } from "./database-servers.ts";
import { naming } from "./name-database-variable.ts";
import { findPoolerMode, type PoolerMode } from "./pooler-mode.ts";

/**
 * Throws `ConfigError`, with the variable to set or to change, when a pooler is in the way of what core does there: LISTEN, advisory locks,
 * prepared statements and COPY need a session, everything else a transaction. Also when the two URLs lead to different databases.
 */
export const checkPoolers = async (
  { requests, sessions }: CoreServers,
  log: Pick<Log, "warn">,
): Promise<void> => {
  const [url, mode] = await naming(requests.variable, () => locatePooler(requests));
  if (mode === "statement")
    reject("SVC_DATABASE_URL", "leads to a pooler in statement mode: core needs transactions");
  if (sessions.variable === "SVC_DATABASE_URL") {
    if (mode === "transaction")
      reject(
        "SVC_DATABASE_SESSION_URL",
        `is required: SVC_DATABASE_URL leads to a pooler in transaction mode; ${remedy}`,
      );
    return;
  }
  const [sessionUrl, sessionMode] = await naming(sessions.variable, () => locatePooler(sessions));
  if (sessionMode !== "session")
    reject(
      "SVC_DATABASE_SESSION_URL",
      `leads to a pooler in transaction or statement mode; ${remedy}`,
    );
  if (!(await isSameDatabase(url, sessionUrl)))
    reject("SVC_DATABASE_SESSION_URL", "leads to another database than SVC_DATABASE_URL");
  if (!(await hasStatementTimeout(url)))
    log.warn(
      {},
      "the role of SVC_DATABASE_URL has no statement_timeout: see docs/database-poolers.md",
    );
};

/** Throws `ConfigError`, with the command that mends it, for what core cannot use and cannot set itself. For a start, before it migrates. */
export const checkSettings = async ({ requests, sessions }: CoreServers): Promise<void> => {
  for (const { variable, servers } of new Set([requests, sessions]))
    await naming(variable, async () => {
      // Behind a pooler in transaction mode nothing may be left in a session.
      const setup = variable === sessions.variable ? setForSession(callDeadlineMs.api) : "";
      const statements = `${setup}; ${selectFaults}`;
      const [found] = await withClient(await servers.locate(), (client) =>
        lastResult(client, statements),
      );
      if (found !== undefined) reject(variable, `leads to ${found.fault}`);
    });
};

const locatePooler = async ({
  servers,
}: NamedServers): Promise<[url: string, mode: PoolerMode]> => {
  const url = await servers.locate();
  return [url, await findPoolerMode(url)];
};

const remedy = "name PostgreSQL itself, or a pooler in session mode";

const reject = (variable: DatabaseVariable, message: string): never => {
  throw new ConfigError([{ variable, message }]);
};

/** Any constant works if it is not that of another lock. */
const lockClass = 1_734_028;

/** A lock that one connection holds is taken for the other only in the same database of the same server. */
const isSameDatabase = (url: string, sessionUrl: string): Promise<boolean> =>
  withClient(sessionUrl, async (session) => {
    const { rows } = await session.query<{ pid: number }>(
      `select pg_backend_pid() as pid, pg_advisory_lock(${lockClass}, pg_backend_pid())`,
    );
    const pid = rows[0]?.pid ?? 0;
    try {
      return await withClient(url, async (client) => {
        const taken = await client.query<{ taken: boolean }>(
          `select pg_try_advisory_xact_lock(${lockClass}, ${pid}) as taken`,
        );
        return taken.rows[0]?.taken === false;
      });
    } finally {
      await session.query(`select pg_advisory_unlock(${lockClass}, ${pid})`);
    }
  });

/** Behind a pooler core sets no timeout for a single statement: nothing of it may be left to other clients. */
const hasStatementTimeout = (url: string): Promise<boolean> =>
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
