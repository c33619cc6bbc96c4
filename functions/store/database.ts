import type { PgDatabase } from "drizzle-orm/pg-core";
import { drizzle, type PostgresJsDatabase, type PostgresJsQueryResultHKT } from "drizzle-orm/postgres-js";
import postgres, { type Sql } from "postgres";
import * as schema from "../../drizzle/schema/index.ts";

/** Core's database: a pool on Node, one client per request in workerd. */
export type Database = PostgresJsDatabase<typeof schema>;

/** What a store function runs on: the database itself or a transaction of it. */
export type Executor = PgDatabase<PostgresJsQueryResultHKT, typeof schema>;

/** Drizzle over a postgres.js client. The caller owns the client and ends it. */
export const openDatabase = (client: Sql): Database => drizzle(client, { schema });

/** Opens the socket of one connection: unconnected or connected; postgres.js writes to it at once. */
export type OpenSocket = (target: { host: string[]; port: number[]; path: string | false }) => unknown;

/** How many connections a pool opens at most unless told. */
export const connectionsMaxDefault = 10;

/** How to connect. */
export interface DatabaseOptions {
  /** `postgres://user:password@host:port/database`; a unix socket as `@%2Fdirectory` or `?host=/directory`, as libpq has it. */
  url: string;
  /** Connections at most; `connectionsMaxDefault` on Node. In workerd a client lives for one request and takes 2. */
  connectionsMax?: number;
  applicationName?: string;
  connectTimeoutSeconds?: number;
  /** A server-side limit for each statement (D3: a stopped server must not pile up work); 30 s unless told, 0 for none. */
  statementTimeoutMs?: number;
  /** On Node `openDatabaseSocket` of functions/node, for TCP_NODELAY. */
  openSocket?: OpenSocket;
}

/** A connected database: lazily, so that making it never fails. */
export interface ConnectedDatabase {
  db: Database;
  /** postgres.js itself, for LISTEN and for what drizzle cannot say. */
  sql: Sql;
  /** Lets running queries finish for `timeoutSeconds` (5), then closes every connection. */
  close(timeoutSeconds?: number): Promise<void>;
}

/** Makes the client that every query of core except COPY goes through. */
export const connectDatabase = (options: DatabaseOptions): ConnectedDatabase => {
  const { url, host } = splitUnixSocket(options.url);
  const settings = {
    ...(host === undefined ? {} : { host }),
    max: options.connectionsMax ?? connectionsMaxDefault,
    // Array types are declared below instead of asked for at each connect: the same behaviour in workerd, a round trip less.
    fetch_types: false,
    types: arrayTypes,
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
  const sql: Sql = postgres(url, settings);
  return { db: openDatabase(sql), sql, close: (timeoutSeconds = 5) => sql.end({ timeout: timeoutSeconds }) };
};

/** postgres.js knows no unix socket in a URL: takes the directory out of it. */
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

const arrayElement = (value: unknown): string =>
  value === null || value === undefined ? "NULL" : `"${String(value).replace(/["\\]/g, "\\$&")}"`;

const serializeArray = (values: unknown): string =>
  // drizzle has written the columns of its schema as array literals already.
  Array.isArray(values) ? `{${values.map(arrayElement).join(",")}}` : String(values);

/**
 * The array types that queries of ours bind, by their fixed oid: of strings, numbers and ids. (postgres.js sends an array of Date,
 * boolean or bytes under its element's type; map such to strings.) Results stay text: drizzle parses its own array columns.
 */
const arrayTypes = Object.fromEntries(
  Object.entries({ integer: 1007, text: 1009, bigint: 1016, double: 1022, timestamptz: 1185, uuid: 2951 }).map(
    ([name, oid]) => [`${name}_array`, { to: oid, from: [], serialize: serializeArray, parse: (text: string) => text }],
  ),
);
