import { connect, type Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { Client } from "pg";
import type { CoreConfig } from "#functions/config/core-config.ts";
import type { SharedServers } from "#functions/store/database/database.ts";
import type { OpenSocket } from "#functions/store/database/pool/single-socket.ts";
import { destroyClient } from "#functions/store/ingest/copy-transaction.ts";
import { splitDatabaseUrl } from "#kit/database-url.ts";
import { fileFault } from "#kit/describe-error.ts";
import { variableFault } from "#kit/env.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { readKeyFile, readTrustedFile } from "../config-files.ts";

/** The servers of one URL, shared by the pools of a process. */
export interface DatabaseServers extends SharedServers {
  /** Returns the URL of the server in use; of several, the first that accepts writes. Rejects when there is none. */
  locate(): Promise<string>;
  /** Returns how many connections of the pools are open or being opened. */
  count(): number;
}

/** The variables that name core's servers. */
export type DatabaseVariable = "SVC_DATABASE_URL" | "SVC_DATABASE_SESSION_URL";

/** The servers of a variable. */
export interface NamedServers {
  variable: DatabaseVariable;
  url: string;
  servers: DatabaseServers;
}

/**
 * Core's servers: for requests and jobs, and for work that needs a session: LISTEN, advisory locks of a session, prepared statements, COPY,
 * migrations. Without SVC_DATABASE_SESSION_URL both are the same.
 */
export interface CoreServers {
  requests: NamedServers;
  sessions: NamedServers;
}

/** Creates the servers that the configuration names. */
export const createCoreServers = ({
  databaseUrl,
  databaseSessionUrl,
}: Pick<CoreConfig, "databaseUrl" | "databaseSessionUrl">): CoreServers => {
  const serversOf = (variable: DatabaseVariable, url: string) => ({
    variable,
    url,
    servers: createDatabaseServers(url, variable),
  });
  const requests = serversOf("SVC_DATABASE_URL", databaseUrl.reveal());
  if (databaseSessionUrl === null) return { requests, sessions: requests };
  return { requests, sessions: serversOf("SVC_DATABASE_SESSION_URL", databaseSessionUrl.reveal()) };
};

const probeTimeoutMs = 2_000;

/**
 * Chooses among the servers of a URL (docs/operate.md). Uses a single server as it is. Queries several in turn, and uses the first that accepts
 * writes until one of its connections fails. Throws `ConfigError` with `variable` if a file for TLS cannot be read.
 */
export const createDatabaseServers = (
  url: string,
  variable: DatabaseVariable = "SVC_DATABASE_URL",
): DatabaseServers => {
  const tls = readDatabaseTls(url, variable);
  const urls = splitDatabaseUrl(url).servers;
  const pools = new Set<Parameters<SharedServers["join"]>[0]>();
  const [only = url] = urls;
  let current = urls.length === 1 ? only : undefined;
  const find = singleFlight(async () => {
    const found = await findWritable(urls);
    current = found;
    return found;
  });
  const locate = async () => current ?? find();
  const forget = () => {
    if (urls.length > 1) current = undefined;
  };
  const watched = (socket: Socket): Socket => socket.once("error", forget);
  return {
    tls,
    locate,
    count: () => pools.values().reduce((sum, pool) => sum + pool.count(), 0),
    open: (target) => {
      if (urls.length === 1) return watched(openDatabaseSocket(target));
      return locate().then((located) => watched(openDatabaseSocket(targetOf(located))));
    },
    join(pool) {
      pools.add(pool);
      return () => void pools.delete(pool);
    },
    leave(cause, silentMs) {
      forget();
      for (const pool of pools) pool.drop(cause, silentMs);
    },
  };
};

const targetOf = (url: string) => {
  const { hostname, port } = new URL(url);
  const host = decodeURIComponent(hostname).replace(/^\[|\]$/g, "");
  return {
    host: [host],
    port: [Number(port)],
    path: host.startsWith("/") && (`${host}/.s.PGSQL.${port}` as const),
  };
};

const findWritable = async (urls: readonly string[]) => {
  let fault: unknown;
  for (const url of urls) {
    try {
      if (await isWritable(url)) return url;
      fault ??= Object.assign(new Error("no server of the URL accepts writes"), {
        code: "SERVER_REFUSED",
      });
    } catch (cause) {
      fault = cause;
    }
  }
  throw fault;
};

const isWritable = async (url: string) => {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: probeTimeoutMs,
    query_timeout: probeTimeoutMs,
    application_name: "svc-server probe",
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    // Not by a function: a role that was created after core's last start may execute none that reads settings (docs/chat-sql.md).
    const { rows } = await client.query("show transaction_read_only");
    return rows[0]?.transaction_read_only === "off";
  } finally {
    destroyClient(client);
  }
};

/**
 * After 5 silent seconds the operating system probes the server, and closes the connection after ten more without an answer. It does so only for
 * idle connections: the deadline covers unacknowledged writes.
 */
const keepAliveMs = 5_000;

/**
 * Opens a connection of postgres.js with TCP_NODELAY, which it does not set: without it, a small write that follows another waits 40 ms
 * for the acknowledgement of the first. Returns the socket before it is connected: its events report a failed connect.
 */
export const openDatabaseSocket = ({ host, port, path }: Parameters<OpenSocket>[0]): Socket => {
  if (path) return connect({ path });
  const at = Math.floor(Math.random() * host.length);
  // postgres.js reads the TLS server name from the socket.
  return Object.assign(
    connect({
      host: host[at] ?? "localhost",
      port: port[at] ?? 5432,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveMs,
    }),
    {
      host: host[at],
    },
  );
};

/**
 * Reads the files that a URL names for TLS. Returns options of `tls.connect`; undefined without TLS. Throws `ConfigError` with `variable`
 * for a file that cannot be read.
 */
const readDatabaseTls = (url: string, variable: string): ConnectionOptions | undefined => {
  const { tls, servers } = splitDatabaseUrl(url);
  if (tls === undefined) return undefined;
  const read = (parameter: string, path: string, readPem = readTrustedFile) => {
    try {
      return readPem(path).toString("utf8");
    } catch (cause) {
      throw variableFault(
        variable,
        `has a file in ${parameter} that cannot be used: ${fileFault(cause)}`,
      );
    }
  };
  const [only = "", ...others] = servers;
  return {
    ...(tls.rootCertFile ? { ca: read("sslrootcert", tls.rootCertFile) } : {}),
    ...(tls.certFile ? { cert: read("sslcert", tls.certFile) } : {}),
    ...(tls.keyFile ? { key: read("sslkey", tls.keyFile, readKeyFile) } : {}),
    ...(tls.mode === "require" ? { rejectUnauthorized: false } : {}),
    ...(tls.mode === "verify-ca" ? { checkServerIdentity: () => undefined } : {}),
    // Where the host is an address, its certificate is verified for that. Of several servers by address none is accepted.
    ...(others.length === 0 ? { host: new URL(only).hostname.replace(/^\[|\]$/g, "") } : {}),
  };
};
