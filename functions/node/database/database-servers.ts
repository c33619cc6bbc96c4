import type { Socket } from "node:net";
import { Client } from "pg";
import { splitDatabaseUrl } from "../../../kit/database-url.ts";
import { singleFlight } from "../../../kit/single-flight.ts";
import type { CoreConfig } from "../../config/core-config.ts";
import type { SharedServers } from "../../store/database/database.ts";
import { destroyClient } from "../../store/ingest/copy-transaction.ts";
import { openDatabaseSocket } from "./database-socket.ts";
import { readDatabaseTls } from "./database-tls.ts";

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
 * Core's servers: for requests and jobs, and for what keeps a session: LISTEN, advisory locks of a session, prepared statements, COPY,
 * migrations. The same without SVC_DATABASE_SESSION_URL.
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
 * Chooses among the servers of a URL (docs/operate.md). One server is used as it is. Several are asked in turn, and the first that
 * accepts writes is used until one of its connections fails. Throws `ConfigError` with `variable` when a file for TLS cannot be read.
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
  const forget = (): void => {
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

const findWritable = async (urls: readonly string[]): Promise<string> => {
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

const isWritable = async (url: string): Promise<boolean> => {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: probeTimeoutMs,
    query_timeout: probeTimeoutMs,
    application_name: "svc-server probe",
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    // No function: a role that was created after core's last start may execute none that reads settings (docs/chat-sql.md).
    const { rows } = await client.query("show transaction_read_only");
    return rows[0]?.transaction_read_only === "off";
  } finally {
    destroyClient(client);
  }
};
