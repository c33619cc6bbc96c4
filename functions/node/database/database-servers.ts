import { connect, type Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { Client } from "pg";
import type { CoreConfig } from "#functions/config/core-config.ts";
import type { SharedServers } from "#functions/store/database/database.ts";
import { loginRefusalOf } from "#functions/store/database/pool/login-refusal.ts";
import type { OpenSocket } from "#functions/store/database/pool/single-socket.ts";
import { destroyClient } from "#functions/store/ingest/copy-transaction.ts";
import { type DatabaseTls, splitDatabaseUrl } from "#kit/database-url.ts";
import { errorCode, fileFault } from "#kit/describe-error.ts";
import { variableFault } from "#kit/env.ts";
import { singleFlight } from "#kit/group-calls.ts";
import type { Log } from "#kit/log.ts";
import type { Secret } from "#kit/secret.ts";
import { readKeyFile, readTrustedFile } from "../config-files.ts";
import { createPasswordCommand, type PasswordCommand } from "./password-command.ts";

/** The servers of one URL, shared by the pools of a process. */
export interface DatabaseServers extends SharedServers {
  target(): Pick<UsedUrl, "url" | "tls">;
  /** Returns the URL of the server in use, with the password for it; of several, the first that accepts writes. Rejects when there is none. */
  locate(): Promise<string>;
  /** Returns how many connections of the pools are open or being opened. */
  count(): number;
  /** Returns the paths of the URL's files for TLS. */
  tlsPaths(): readonly string[];
  /** Reports whether the login of a new connection was refused since the last `use`. */
  isSuspect(): boolean;
  /** Calls `check` when a login is refused, the first one since the last `use`. */
  onFirstRefusal(check: () => void): void;
  /**
   * Uses a URL, and the files for TLS as they are now, for new connections, once a server has accepted its login; open connections stay. Throws
   * `ConfigError` when none accepts it, and keeps what is in use. Connects only if something has changed, or is suspect.
   */
  use(url: string): Promise<void>;
}

/** The variables that name core's servers. */
export type DatabaseVariable = "SVC_DATABASE_URL" | "SVC_DATABASE_SESSION_URL";

/** The servers of a variable. */
export interface NamedServers {
  variable: DatabaseVariable;
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
export const createCoreServers = (
  { databaseUrl, databaseSessionUrl, databasePasswordCommand }: DatabaseConfig,
  log: Pick<Log, "warn">,
): CoreServers => {
  const passwords =
    databasePasswordCommand === null ? null : createPasswordCommand(databasePasswordCommand, log);
  const serversOf = (variable: DatabaseVariable, url: Secret) => ({
    variable,
    servers: createDatabaseServers(url.reveal(), variable, passwords),
  });
  const requests = serversOf("SVC_DATABASE_URL", databaseUrl);
  if (databaseSessionUrl === null) return { requests, sessions: requests };
  return { requests, sessions: serversOf("SVC_DATABASE_SESSION_URL", databaseSessionUrl) };
};

/** The variables of a program's database. */
export type DatabaseConfig = Pick<
  CoreConfig,
  "databaseUrl" | "databaseSessionUrl" | "databasePasswordCommand"
>;

const probeTimeoutMs = 2_000;

/**
 * Chooses among the servers of a URL (docs/operate.md). Uses a single server as it is. Queries several in turn, and uses the first that accepts
 * writes until one of its connections fails. Throws `ConfigError` with `variable` if a file for TLS cannot be read.
 */
export const createDatabaseServers = (
  url: string,
  variable: DatabaseVariable = "SVC_DATABASE_URL",
  passwords: PasswordCommand | null = null,
): DatabaseServers => {
  let used = readUrl(url, variable);
  const pools = new Set<Parameters<SharedServers["join"]>[0]>();
  /** Of several servers the one in use, while it is known. */
  let current: string | undefined;
  let isSuspect = false;
  let checkRefusal = (): void => undefined;
  const withPassword = async (server: string) =>
    passwords === null ? server : passwordIn(server, await passwords.next());
  const find = singleFlight(async () => {
    current = await findWritable(used.servers, withPassword);
    return current;
  });
  const only = () => (used.servers.length === 1 ? used.servers[0] : undefined);
  const locateServer = async () => only() ?? current ?? find();
  const forget = () => {
    current = undefined;
  };
  const watched = (socket: Socket): Socket => socket.once("error", forget);
  const servers: DatabaseServers = {
    target: () => ({ url: used.url, tls: used.tls }),
    password: passwords?.latest,
    locate: async () => withPassword(await locateServer()),
    count: () => pools.values().reduce((sum, pool) => sum + pool.count(), 0),
    open: (target) => {
      if (only() && passwords === null) return watched(openDatabaseSocket(target));
      return servers.locate().then((located) => watched(openDatabaseSocket(targetOf(located))));
    },
    join(pool) {
      pools.add(pool);
      return () => void pools.delete(pool);
    },
    leave(cause, silentMs) {
      forget();
      for (const pool of pools) pool.drop(cause, silentMs);
    },
    tlsPaths: () => used.tlsPaths,
    isSuspect: () => isSuspect,
    onFirstRefusal(check) {
      checkRefusal = check;
    },
    refused() {
      passwords?.forget();
      if (isSuspect) return;
      isSuspect = true;
      checkRefusal();
    },
    async use(newer) {
      const next = readUrl(newer, variable);
      if (!isSuspect && isDeepStrictEqual(next, used)) return;
      await tryLogin(next.servers, withPassword).catch((cause: unknown) => {
        throw variableFault(
          variable,
          loginRefusalOf(cause) ?? `leads to no server that answers (${errorCode(cause)})`,
        );
      });
      used = next;
      isSuspect = false;
      forget();
    },
  };
  return servers;
};

/** Returns the URL of a server with another password. */
const passwordIn = (server: string, password: string) => {
  const url = new URL(server);
  url.password = encodeURIComponent(password);
  return url.href;
};

/** Resolves once a server accepts the login. Rejects with the error of the first one if none does. */
const tryLogin = async (
  servers: readonly string[],
  withPassword: (server: string) => Promise<string>,
) => {
  const faults: unknown[] = [];
  for (const server of servers)
    try {
      return void (await isWritable(await withPassword(server)));
    } catch (cause) {
      faults.push(cause);
    }
  throw faults[0];
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

const findWritable = async (
  urls: readonly string[],
  withPassword: (url: string) => Promise<string>,
) => {
  let fault: unknown;
  for (const url of urls) {
    try {
      if (await isWritable(await withPassword(url))) return url;
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

/** What new connections use of a URL. */
interface UsedUrl {
  url: string;
  servers: readonly string[];
  tlsPaths: readonly string[];
  tls: ConnectionOptions | undefined;
}

/** Splits a URL, and reads its files for TLS. Throws `ConfigError` with `variable` for a file that cannot be read. */
const readUrl = (url: string, variable: string): UsedUrl => {
  const { tls, servers } = splitDatabaseUrl(url);
  const tlsPaths = [tls?.rootCertFile, tls?.certFile, tls?.keyFile].filter((path) => path != null);
  return { url, servers, tlsPaths, tls: tls && readDatabaseTls(tls, servers, variable) };
};

const readDatabaseTls = (
  tls: DatabaseTls,
  servers: readonly string[],
  variable: string,
): ConnectionOptions => {
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
    ...(tls.mode === "verify-ca" ? { checkServerIdentity: acceptAnyName } : {}),
    // Where the host is an address, its certificate is verified for that. Of several servers by address none is accepted.
    ...(others.length === 0 ? { host: new URL(only).hostname.replace(/^\[|\]$/g, "") } : {}),
  };
};

/** One for all, so that options with it compare as equal. */
const acceptAnyName = () => undefined;
