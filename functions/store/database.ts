import { sql } from "drizzle-orm";
import type { PgDatabase } from "drizzle-orm/pg-core";
import { drizzle, type PostgresJsDatabase, type PostgresJsQueryResultHKT } from "drizzle-orm/postgres-js";
import postgres, { type Sql } from "postgres";
import * as schema from "../../drizzle/schema/index.ts";

/** Core's database: a pool on Node, one client per request in workerd. */
export type Database = PostgresJsDatabase<typeof schema>;

/** The database or a transaction: every store function runs on either. */
export type Executor = PgDatabase<PostgresJsQueryResultHKT, typeof schema>;

/** Opens drizzle over a postgres.js client. The caller owns the client and ends it. */
export const openDatabase = (client: Sql): Database => drizzle(client, { schema });

/** Opens the socket of one connection, connected or not; postgres.js writes to it at once. */
export type OpenSocket = (target: { host: string[]; port: number[]; path: string | false }) => unknown;

/** The default of `connectionsMax`. */
export const connectionsMaxDefault = 10;

/** How to connect. */
export interface DatabaseOptions {
  /** `postgres://user:password@host:port/database`; a unix socket as `@%2Fdirectory` or `?host=/directory`, as libpq has it. */
  url: string;
  /** The largest number of connections. In workerd a client lives for one request and uses 2. */
  connectionsMax?: number;
  applicationName?: string;
  connectTimeoutSeconds?: number;
  /** The server-side timeout of each statement (D3: a stopped server must not pile up work). Default 30 s; 0 disables it. */
  statementTimeoutMs?: number;
  /** On Node `openDatabaseSocket` of functions/node, for TCP_NODELAY. */
  openSocket?: OpenSocket;
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
  const { url, host } = splitUnixSocket(options.url);
  const settings = {
    ...(host === undefined ? {} : { host }),
    max: options.connectionsMax ?? connectionsMaxDefault,
    // Saves a round trip at each connect, and behaves the same in workerd.
    fetch_types: false,
    types: { textArray },
    connect_timeout: options.connectTimeoutSeconds ?? 5,
    connection: {
      application_name: options.applicationName ?? "svc-server",
      TimeZone: "UTC",
      statement_timeout: options.statementTimeoutMs ?? 30_000,
    },
    onnotice: () => undefined,
    // An option of postgres.js that its types leave out.
    ...(options.openSocket === undefined ? {} : { socket: options.openSocket }),
  };
  const client: Sql = postgres(url, settings);
  return {
    db: openDatabase(client),
    sql: client,
    close: (timeoutSeconds = 5) => client.end({ timeout: timeoutSeconds }),
  };
};

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
  const fromQuery = url.searchParams.get("host");
  const directory = fromQuery?.startsWith("/")
    ? fromQuery
    : url.hostname.toLowerCase().startsWith("%2f")
      ? decodeURIComponent(url.hostname)
      : undefined;
  if (directory === undefined) return { url: text };
  url.searchParams.delete("host");
  url.hostname = "localhost";
  return { url: url.href, host: directory };
};

/** What decides whether a committed row survives a crash, and whether the server accepts writes. */
export interface ServerSettings {
  /** The major version. */
  version: number;
  fsync: boolean;
  inRecovery: boolean;
}

/** Reads the settings of the server. */
export const readServerSettings = async (db: Executor): Promise<ServerSettings> => {
  const [row] = await db.execute<{ version: number; fsync: boolean; recovering: boolean }>(sql`
    select current_setting('server_version_num')::int / 10000 as version, current_setting('fsync') = 'on' as fsync,
      pg_is_in_recovery() as recovering`);
  if (row === undefined) throw new Error("the server returned no row");
  return { version: row.version, fsync: row.fsync, inRecovery: row.recovering };
};

/** Returns the tenant that the database belongs to: `tenantId` if it belonged to none. Two cores that start at once agree. */
export const claimDeployment = async (db: Executor, tenantId: string, now: Date): Promise<string> => {
  await db.insert(schema.deployment).values({ tenantId, createdAt: now }).onConflictDoNothing();
  const [row] = await db.select().from(schema.deployment);
  return row?.tenantId ?? tenantId;
};
