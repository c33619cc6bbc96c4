import type { PgDatabase } from "drizzle-orm/pg-core";
import { drizzle, type PostgresJsDatabase, type PostgresJsQueryResultHKT } from "drizzle-orm/postgres-js";
import postgres, { type Sql, type TransactionSql } from "postgres";
import * as schema from "../../drizzle/schema/index.ts";
import { type DatabaseTls, splitDatabaseUrl, withoutTlsParameters } from "../../kit/database-url.ts";
import type { Tracer } from "../../kit/tracing/tracer.ts";
import { callDeadlineMs, connectionsMaxDefault, waitingMax } from "./call-limits.ts";
import { traceStatements } from "./trace-statements.ts";

/** Core's database: a pool on Node, one client per request in workerd. */
export type Database = PostgresJsDatabase<typeof schema>;

/** The database or a transaction: every store function runs on either. */
export type Executor = PgDatabase<PostgresJsQueryResultHKT, typeof schema>;

/** Opens drizzle over a postgres.js client. The caller owns the client and ends it. */
export const openDatabase = (client: Sql): Database => drizzle(client, { schema });

/** Opens the socket of one connection, connected or not; postgres.js writes to it at once. A rejection fails the query that needs it. */
export type OpenSocket = (target: { host: string[]; port: number[]; path: string | false }) => unknown;

/** Closes connections of a pool: the idle ones, or all. */
export type DropConnections = (cause: Error, all: boolean) => void;

/** The servers that several pools share. What one pool learns about the server in use, every pool acts on. */
export interface SharedServers {
  open: OpenSocket;
  /** TLS as `tls.connect` of node:tls takes it; undefined without TLS. */
  readonly tls?: object | undefined;
  /** Registers a pool. Returns the function that removes it. */
  join(drop: DropConnections): () => void;
  /** Reports a fault of the server in use; `all` when none of its connections is of use. */
  leave: DropConnections;
}

/** How to connect. */
export interface DatabaseOptions {
  /** `postgres://user:password@host:port/database`; a unix socket as `@%2Fdirectory` or `?host=/directory`, as libpq has it. */
  url: string;
  /** The largest number of connections. In workerd a client lives for one request and uses 2. */
  connectionsMax?: number;
  applicationName?: string;
  connectTimeoutSeconds?: number;
  /**
   * The deadline of each statement and of each transaction, on this side of the connection (D3: a stopped server must not pile up work).
   * A call that exceeds it fails and loses its connection. Default `callDeadlineMs.api`; 0 disables it and every timeout of the server.
   */
  deadlineMs?: number;
  /** Refuses servers that accept no writes. Default true. */
  writes?: boolean;
  /**
   * Leaves nothing in a session, for a pooler in transaction mode: prepares no statement, and sets timeouts for each transaction. A single
   * statement has those of the role; past `deadlineMs` its connection is closed all the same. Default false.
   */
  pooled?: boolean;
  /**
   * For prepared statements that look up rows by key: plans each once a session, and by index wherever it can, so that the plan suits a
   * large table even if it was made for a small one. Without effect where `pooled`, which plans each call. Default false.
   */
  plansByIndex?: boolean;
  /** Records the statements of operations that it records. */
  tracer?: Tracer;
  /** On Node `openDatabaseSocket` of functions/node, for TCP_NODELAY. */
  openSocket?: OpenSocket;
  /** In place of `openSocket`, where several pools use one URL. */
  servers?: SharedServers;
}

/** A client that connects lazily, so that creating it never fails. */
export interface ConnectedDatabase {
  db: Database;
  /** The postgres.js client, for LISTEN and for statements that drizzle cannot express. */
  sql: Sql;
  /** Waits up to `timeoutSeconds` (default 5) for running queries, then closes every connection. */
  close(timeoutSeconds?: number): Promise<void>;
}

/** Creates the client of every query of core except COPY. */
export const connectDatabase = (options: DatabaseOptions): ConnectedDatabase => {
  // `servers` chooses among several servers; without it, the first is used.
  const split = splitDatabaseUrl(options.url);
  const { url, host } = splitUnixSocket(withoutTlsParameters(split.servers[0] ?? options.url));
  const { servers, deadlineMs = callDeadlineMs.api, connectTimeoutSeconds = 3, pooled = false } = options;
  const planning = options.plansByIndex ? `${withoutWorkers}; ${byIndex}` : withoutWorkers;
  const drop: DropConnections = (cause, all) => (client as PatchedSql).drop(cause, all);
  const openSocket = servers?.open ?? options.openSocket;
  const settings = {
    ...(host === undefined ? {} : { host }),
    // Without `servers`, which read files, the runtime's CAs decide.
    ssl: servers?.tls ?? tlsWithoutFiles(split.tls),
    max: options.connectionsMax ?? connectionsMaxDefault,
    // Saves a round trip at each connect, and behaves the same in workerd.
    fetch_types: false,
    types: { textArray },
    connect_timeout: connectTimeoutSeconds,
    // The driver's own grows to 20 s, which is how long core would stay unavailable after a restart of the server.
    backoff: (failures: number) => (0.5 + Math.random() / 2) * Math.min(0.02 * 2 ** failures, 0.25),
    connection: { application_name: options.applicationName ?? "svc-server", TimeZone: "UTC" },
    onnotice: () => undefined,
    // Options of postgres.js that its types leave out, and those of patches/.
    ...(openSocket === undefined ? {} : { socket: openSocket }),
    // PgBouncer 1.18 gives the server's connection to another client when it answers a statement, also when the next one is on its way.
    ...(pooled ? { prepare: false, max_pipeline: 0 } : { setup: `${setTimeouts("session", deadlineMs)}; ${planning}` }),
    deadline: deadlineMs,
    max_waiting: waitingMax,
    is_fatal: ({ code, severity }: ServerError) => code === readOnlyTransaction || isEnd(severity),
    ...(options.writes === false ? {} : { refuse_server: acceptsNoWrites }),
    onfault: (cause: Error & { code?: string }) => (servers?.leave ?? drop)(cause, concernsServer(cause.code)),
  };
  const client: Sql = postgres(url, settings);
  const { tracer } = options;
  if (pooled) prepareTransactions(client, (tx) => void tx.unsafe(setTimeouts("local", deadlineMs)).execute());
  if (tracer) {
    traceStatements(client, tracer);
    prepareTransactions(client, (tx) => traceStatements(tx, tracer));
  }
  const leave = servers?.join(drop);
  return {
    db: openDatabase(client),
    sql: client,
    close: async (timeoutSeconds = 5) => {
      leave?.();
      await client.end({ timeout: timeoutSeconds });
    },
  };
};

const tlsWithoutFiles = (tls: DatabaseTls | undefined) =>
  tls === undefined ? false : tls.mode === "require" ? ("require" as const) : ("verify-full" as const);

/** As patched by patches/. */
type PatchedSql = Sql & { drop: DropConnections };
type ServerError = Readonly<Record<string, string | undefined>>;

const readOnlyTransaction = "25006";
/** Errors after which the server closes the connection. */
const isEnd = (severity: string | undefined): boolean => severity === "FATAL" || severity === "PANIC";
/** The server reports both when a connection opens, and again when they change. */
const acceptsNoWrites = ({ in_hot_standby, default_transaction_read_only }: ServerError): boolean =>
  in_hot_standby === "on" || default_transaction_read_only === "on";
const concernsServer = (code: string | undefined): boolean => code === readOnlyTransaction || code === "SERVER_REFUSED";

/**
 * Returns statements that set the timeouts of a session, or of a transaction (`local`), shorter than the deadline of its calls where there
 * is one: an error of the server costs no connection. By SET: a pooler refuses them in the startup message.
 */
const setTimeouts = (scope: "session" | "local", deadlineMs: number): string => {
  const idle = deadlineMs === 0 ? 0 : idleInTransactionMs;
  return `set ${scope} statement_timeout = ${Math.floor(deadlineMs * 0.9)}; set ${scope} lock_timeout = ${Math.floor(deadlineMs * 0.8)};
    set ${scope} idle_in_transaction_session_timeout = ${idle}`;
};

/** Makes each transaction of a client begin with `prepare`. It awaits nothing: what it sends needs no round trip of its own. */
const prepareTransactions = (client: Sql, prepare: (tx: TransactionSql) => void): void => {
  const { begin } = client;
  type Work = (tx: TransactionSql) => unknown;
  const beginPrepared = (options: string | Work, work: Work = options as Work) =>
    begin(typeof options === "string" ? options : "", (tx) => {
      prepare(tx);
      return work(tx);
    });
  client.begin = beginPrepared as typeof begin;
};

/** Parallel workers would cost a scan of the fleet half as much CPU again, and take it from heartbeats and ingest. */
const withoutWorkers = "set max_parallel_workers_per_gather = 0";
const byIndex = "set enable_seqscan = off; set plan_cache_mode = force_generic_plan";

/** After it, the server releases the locks of a core that is stopped or unreachable. */
const idleInTransactionMs = 10_000;

/** `text[]`, written by drizzle and read here: drizzle's own reader (0.45.4) drops backslashes, and keeps what the driver has parsed. */
const textArray = {
  to: 1009,
  from: [1009],
  serialize: String,
  parse: (literal: string): string[] =>
    Array.from(literal.matchAll(/"((?:[^"\\]|\\.)*)"|([^{},"]+)/gs), ([, quoted, plain = ""]) =>
      quoted === undefined ? plain : quoted.replace(/\\(.)/gs, "$1"),
    ),
};

/** Extracts the directory of a unix socket, which postgres.js does not support in a URL. */
const splitUnixSocket = (text: string): { url: string; host?: string } => {
  const url = new URL(text);
  if (!url.hostname.toLowerCase().startsWith("%2f")) return { url: text };
  const directory = decodeURIComponent(url.hostname);
  url.hostname = "localhost";
  return { url: url.href, host: directory };
};

/** Returns the tenant that the database belongs to: `tenantId` if it belonged to none. Two cores that start at once agree. */
export const claimDeployment = async (db: Executor, tenantId: string, now: Date): Promise<string> => {
  await db.insert(schema.deployment).values({ tenantId, createdAt: now }).onConflictDoNothing();
  const [row] = await db.select().from(schema.deployment);
  return row?.tenantId ?? tenantId;
};
