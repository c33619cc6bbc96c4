/** The servers that a connection URL names, each with a URL of its own. No message of this file quotes the URL. */
interface DatabaseUrls {
  /** One URL for each server, in the order of the URL; without the parameters that choose among servers. */
  servers: readonly string[];
  /** Undefined without TLS. */
  tls: DatabaseTls | undefined;
}

/** How a URL asks for TLS, with libpq's meaning of `sslmode`. */
export interface DatabaseTls {
  /** Whether the server's certificate must be of a known CA (`verify-ca`), and for the host of the URL (`verify-full`). */
  mode: "require" | "verify-ca" | "verify-full";
  /** Paths of PEM files: of the CAs, in place of the runtime's own, and of the client's certificate and key. */
  rootCertFile: string | undefined;
  certFile: string | undefined;
  keyFile: string | undefined;
}

/** A URL that core cannot use. The message completes "SVC_DATABASE_URL …" and quotes nothing of it. */
export class DatabaseUrlFault extends Error {
  override readonly name = "DatabaseUrlFault";
}

const form = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;
const portDefault = "5432";
/** The values of libpq that select a writable server. */
const sessionAttributes = new Set(["any", "read-write", "primary"]);

/**
 * Splits a URL of libpq's form into one for each server: `postgres://user@a:5432,b:5433/db`, or `?host=a,b&port=5432`. Throws
 * `DatabaseUrlFault` if it is invalid, or selects a server that accepts no writes.
 */
export const splitDatabaseUrl = (text: string): DatabaseUrls => {
  const [matched, user, authority = "", database = "", query = ""] = form.exec(text) ?? [];
  if (matched === undefined)
    throw new DatabaseUrlFault(
      "must be a URL: postgres://user:password@host:port/database, or host,host",
    );
  const parameters = new URLSearchParams(query);
  const attributes = parameters.get("target_session_attrs") ?? "any";
  if (!sessionAttributes.has(attributes))
    throw new DatabaseUrlFault(
      "has a target_session_attrs other than any, read-write or primary: core writes",
    );
  const hosts = parameters.get("host")?.split(",").map(hostInUrl) ?? authority.split(",");
  const ports = parameters.get("port")?.split(",") ?? [portDefault];
  if (ports.length !== 1 && ports.length !== hosts.length)
    throw new DatabaseUrlFault(
      "has a list of ports that is as long as its list of hosts, or one port",
    );
  const tls = tlsOf(parameters);
  for (const name of ["host", "hostaddr", "port", "target_session_attrs"]) parameters.delete(name);
  if (parameters.get("sslrootcert") === "system") parameters.delete("sslrootcert");
  // Without it, pg interprets `sslmode` differently.
  if (tls) parameters.set("uselibpqcompat", "true");
  const credentials = user === undefined ? "" : `${user}@`;
  const rest = parameters.size === 0 ? "" : `?${parameters}`;
  const servers = hosts.map((host, index) => {
    const [, name = "localhost", ownPort] = /^(\[[^\]]*\]|[^:[\]]+)?(?::(\d{1,5}))?$/.exec(
      host,
    ) ?? [undefined, null];
    const url = `postgres://${credentials}${name}:${ownPort ?? ports[index] ?? ports[0]}/${database}${rest}`;
    if (name === null || !URL.canParse(url))
      throw new DatabaseUrlFault("has a host or a port that cannot be read");
    return url;
  });
  return { servers, tls };
};

const tlsParameters = ["sslmode", "sslrootcert", "sslcert", "sslkey", "uselibpqcompat"];

const tlsOf = (parameters: URLSearchParams): DatabaseTls | undefined => {
  const [mode = "disable", root, cert, key] = tlsParameters.map(
    (name) => parameters.get(name) ?? undefined,
  );
  const files = {
    rootCertFile: root === "system" ? undefined : root,
    certFile: cert,
    keyFile: key,
  };
  if (mode === "disable") {
    if (root || cert || key)
      throw new DatabaseUrlFault("has files for TLS: also set sslmode=verify-full");
    return undefined;
  }
  if (mode === "require" && root === undefined) return { mode, ...files };
  // Like libpq, verifies the server by a CA that is named.
  if ((mode === "require" || mode === "verify-ca") && files.rootCertFile)
    return { mode: "verify-ca", ...files };
  if (mode === "verify-full") return { mode, ...files };
  throw new DatabaseUrlFault(
    mode === "verify-ca" || mode === "require"
      ? "has an sslmode that needs the file of a CA in sslrootcert"
      : "has an sslmode other than disable, require, verify-ca or verify-full",
  );
};

/** Returns a URL of one server without its parameters for TLS, which the server would interpret as settings. */
export const withoutTlsParameters = (serverUrl: string): string => {
  const [base = serverUrl, query] = serverUrl.split("?");
  const parameters = new URLSearchParams(query);
  for (const name of tlsParameters) parameters.delete(name);
  return parameters.size === 0 ? base : `${base}?${parameters}`;
};

/** Encodes a directory or an IPv6 address for the authority of a URL. */
const hostInUrl = (host: string): string => {
  if (host.startsWith("/")) return encodeURIComponent(host);
  return /^[0-9a-fA-F]*:[0-9a-fA-F:.]*$/.test(host) ? `[${host}]` : host;
};
