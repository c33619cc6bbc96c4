import type { PgDatabase } from "drizzle-orm/pg-core";
import {
  drizzle,
  type PostgresJsDatabase,
  type PostgresJsQueryResultHKT,
} from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import postgres from "postgres";
import { deployment } from "#drizzle/schema/deployment.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import { callDeadlineMs, connectionsMaxDefault, waitingMax } from "./call-limits.ts";
import {
  connectionSettings,
  setForSession,
  setForTransaction,
  setTimeouts,
} from "./connection-settings.ts";
import {
  type ConnectionPool,
  createConnectionPool,
  type DropConnections,
} from "./pool/connection-pool.ts";
import type { OpenSocket } from "./pool/single-socket.ts";
import { createSqlClient, type SqlClient, type StatementSpan } from "./pool/sql-client.ts";

/** Core's database: a pool on Node, one client per request in workerd. */
export type Database = PostgresJsDatabase;

/** The database or a transaction: every store function runs on either. */
export type Executor = PgDatabase<PostgresJsQueryResultHKT>;

/** The servers that several pools share. When one pool detects a fault of the current server, all react. */
export interface SharedServers {
  open: OpenSocket;
  /** Returns how a new connection connects; `tls` are options of `tls.connect` of node:tls, undefined without TLS. */
  target(): { url: string; tls?: object | undefined };
  /** Returns the password of a connection that `open` has opened, in place of the URL's. */
  password?: (() => string) | undefined;
  /** Adds a pool. Returns the function that removes it. */
  join(pool: Pick<ConnectionPool, "drop" | "count">): () => void;
  /** Reports a fault of the current server; without `silentMs` all of its connections are unusable. */
  leave: DropConnections;
  /** Reports that the login of a new connection was refused. */
  refused(): void;
}

/** Where to connect: at a URL, or at servers that several pools share. */
export type DatabaseTarget =
  | {
      /** `postgres://user:password@host:port/database`; a unix socket as `@%2Fdirectory` or `?host=/directory`, as libpq has it. */
      url: string;
      servers?: undefined;
    }
  | { servers: SharedServers; url?: string };

/** How to connect. */
export type DatabaseOptions = DatabaseTarget & PoolSettings;

/** The settings of a pool. */
export interface PoolSettings {
  /** The largest number of connections. In workerd a client lives for one request and uses 2. */
  connectionsMax?: number;
  applicationName?: string;
  connectTimeoutSeconds?: number;
  /**
   * The deadline of each statement and of each transaction, on this side of the connection (D3: a stopped server must not pile up work). A
   * call that exceeds it fails and closes its connection. Default `callDeadlineMs.api`; 0 disables it and every timeout of the server.
   */
  deadlineMs?: number;
  /** Requires servers that accept writes. Default true. */
  writes?: boolean;
  /**
   * Leaves nothing in a session, for a pooler in transaction mode: prepares no statement, and sets timeouts for each transaction. A single
   * statement has those of the role; its connection is closed at `deadlineMs` all the same. Default false.
   */
  pooled?: boolean;
  /**
   * For prepared statements that look up rows by key: plans each once a session, and by index wherever possible, so that the plan suits a
   * large table even if it was made for a small one. No effect if `pooled`, which plans each call. Default false.
   */
  plansByIndex?: boolean;
  /** Records statements of the operations that it records. */
  tracer?: Tracer;
  /** On Node `openDatabaseSocket` of functions/node, for TCP_NODELAY. */
  openSocket?: OpenSocket;
}

/** A client that connects lazily, so that creating it never fails. */
export interface ConnectedDatabase {
  db: Database;
  /** For statements that drizzle cannot express. */
  sql: SqlClient;
  /** Waits up to `timeoutSeconds` (default 5) for running queries, then closes every connection. */
  close(timeoutSeconds?: number): Promise<void>;
}

/** Creates the client of every query of core except COPY. */
export const connectDatabase = (options: DatabaseOptions): ConnectedDatabase => {
  const { servers, deadlineMs = callDeadlineMs.api, pooled = false, tracer } = options;
  const session = `${setForSession(deadlineMs)}${options.plansByIndex ? `; ${byIndex}` : ""}`;
  const pool = createConnectionPool({
    connecting: () => connectionSettings(options),
    openSocket: servers?.open ?? options.openSocket,
    connectionsMax: options.connectionsMax ?? connectionsMaxDefault,
    waitingMax,
    deadlineMs,
    setup: pooled ? "" : session,
    // PgBouncer 1.18 gives the server's connection to another client when it answers a statement, even if the next one has been sent.
    isExclusive: pooled,
    backoffMs,
    lifetimeMs,
    endsWriting: ({ code }) => code === readOnlyTransaction,
    onRefusal: () => servers?.refused(),
    refusesServer: options.writes === false ? () => false : acceptsNoWrites,
    // A late call says nothing about connections that answered while it ran: closing these would add to the load of a slow server.
    onFault: (cause) =>
      (servers?.leave ?? pool.drop)(
        cause,
        concernsServer(errorCode(cause)) ? undefined : deadlineMs / 2,
      ),
  });
  const leave = servers?.join(pool);
  // One, because postgres.js opens all of its connections at once.
  const { url, settings } = connectionSettings(options);
  const parts = postgres(url, { ...settings, max: 1 });
  const sql = createSqlClient({
    pool,
    parts,
    transactionSetup: pooled ? `${setTimeouts("local", deadlineMs)}; ${setForTransaction}` : "",
    trace: tracer && ((text) => traceStatement(tracer, text)),
  });
  return {
    // Without the schema, from which each client and transaction would build its queries by relations. drizzle uses of postgres.js what
    // SqlClient has, and sets readers and writers of some types to those of connection-settings.ts.
    db: drizzle(Object.assign(sql, { options: parts.options }) as unknown as Sql),
    sql,
    close: async (timeoutSeconds = 5) => {
      leave?.();
      await pool.end(timeoutSeconds * 1000);
    },
  };
};

/** Short, because core is unavailable until it tries a restarted server again. */
const backoffMs = (failures: number) =>
  (0.5 + Math.random() / 2) * Math.min(20 * 2 ** failures, 250);

/** Random, so that connections that were opened together are not replaced together. */
const lifetimeMs = () => (30 + Math.random() * 30) * 60_000;

const readOnlyTransaction = "25006";
/** The server reports both when a connection opens, and again when they change. */
const acceptsNoWrites = (parameters: Readonly<Record<string, string>>) =>
  parameters.in_hot_standby === "on" || parameters.default_transaction_read_only === "on";
const concernsServer = (code: string | undefined) =>
  code === readOnlyTransaction || code === "SERVER_REFUSED";

const byIndex = "set enable_seqscan = off; set plan_cache_mode = force_generic_plan";

/** Returns the tenant to which the database belongs: `tenantId` if it belonged to none. Two cores that start at once agree. */
export const claimDeployment = async (
  db: Executor,
  tenantId: string,
  now: Date,
): Promise<string> => {
  await db.insert(deployment).values({ tenantId, createdAt: now }).onConflictDoNothing();
  const [row] = await db.select().from(deployment);
  return row?.tenantId ?? tenantId;
};

/**
 * Begins a span for a statement of a recorded operation, and returns its text with that span as a comment (`/*traceparent='…'*\/`), so that
 * pg_stat_activity and PostgreSQL's log name the request. Undefined for other operations.
 */
const traceStatement = (
  tracer: Tracer,
  text: string,
): { text: string; span: StatementSpan } | undefined => {
  const span = tracer.start({
    name: verbOf(text),
    kind: "client",
    facts: { "db.system.name": "postgresql", "db.query.text": text },
  });
  return span && { text: `${text} /*traceparent='${span.traceparent}'*/`, span };
};

const verbOf = (text: string) => /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? "SQL";
