import { type DatabaseTls, splitDatabaseUrl, withoutTlsParameters } from "#kit/database-url.ts";
import type { DatabaseOptions, DatabaseTarget, SharedServers } from "./database.ts";
import type { ConnectionOptions } from "./pool/pooled-connection.ts";

/** Returns how postgres.js connects now to the servers of `options`. */
export const connectionSettings = (
  options: DatabaseOptions,
): ReturnType<ConnectionOptions["connecting"]> => {
  const { servers, applicationName = "svc-server", connectTimeoutSeconds = 3, pooled } = options;
  const { url: given, tls } = targetOf(options);
  // `servers` chooses among several servers; without it, the first is used.
  const split = splitDatabaseUrl(given);
  const { url, host } = splitUnixSocket(withoutTlsParameters(split.servers[0] ?? given));
  return {
    url,
    settings: {
      ...(host === undefined ? {} : { host }),
      ...(servers?.password ? { password: servers.password } : {}),
      // Without `servers`, which read files, the runtime's CAs decide.
      ssl: tls ?? tlsWithoutFiles(split.tls),
      // Saves a round trip at each connect, and behaves the same in workerd.
      fetch_types: false,
      types: { bytea, date, json, textArray },
      connect_timeout: connectTimeoutSeconds,
      connection: { application_name: applicationName, ...startupSettings },
      onnotice: () => undefined,
      ...(pooled ? { prepare: false } : {}),
    },
  };
};

const targetOf = (target: DatabaseTarget): ReturnType<SharedServers["target"]> =>
  target.servers === undefined ? target : target.servers.target();

const tlsWithoutFiles = (tls: DatabaseTls | undefined): false | "require" | "verify-full" => {
  if (tls === undefined) return false;
  return tls.mode === "require" ? "require" : "verify-full";
};

/** In both formats, because no statement outside of a transaction can set `bytea_output` behind a pooler. postgres.js reads only hex. */
const bytea = {
  to: 17,
  from: [17],
  serialize: (bytes: Uint8Array | string) =>
    `\\x${Buffer.from(bytes as Uint8Array).toString("hex")}`,
  parse: (text: string) =>
    text.startsWith("\\x")
      ? Buffer.from(text.slice(2), "hex")
      : Buffer.from(
          text.replace(/\\(\\|\d{3})/g, (_, code: string) =>
            code === "\\" ? code : String.fromCharCode(Number.parseInt(code, 8)),
          ),
          "latin1",
        ),
};

/** drizzle converts dates itself, and writes JSON. */
const date = {
  to: 1184,
  from: [1082, 1083, 1114, 1115, 1182, 1184, 1185, 1231],
  serialize: (value: unknown) => value,
  parse: (text: string) => text,
};
const json = {
  to: 114,
  from: [114, 3802],
  serialize: (value: unknown) => value,
  parse: (text: string) => JSON.parse(text) as unknown,
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
  if (!url.hostname.toLowerCase().startsWith("%2f")) return { url: text };
  const directory = decodeURIComponent(url.hostname);
  url.hostname = "localhost";
  return { url: url.href, host: directory };
};

/**
 * Settings that decide what a statement and the text of its result mean. A role, a database or a server may have other defaults, so every
 * connection sets these: some in the startup message, which every pooler passes on, and the others by SET. Outside of a transaction, a
 * statement behind a pooler in transaction mode has only the former: it must not depend on the others, except those that core checks
 * (server-settings.ts).
 */

/** For the startup message; drivers send `client_encoding`. Spelled as the server reports them, because a pooler compares the texts. */
const startupSettings = {
  DateStyle: "ISO, MDY",
  TimeZone: "UTC",
  standard_conforming_strings: "on",
};

/**
 * Includes those of the startup message, which pg cannot send. Parallel workers would cost a scan of the fleet half as much CPU again, and
 * take it from heartbeats and ingest. JIT compiles a statement at each call and takes half a second, longer than any of these runs.
 */
const settings = {
  ...startupSettings,
  search_path: "public",
  bytea_output: "hex",
  IntervalStyle: "postgres",
  extra_float_digits: 1,
  array_nulls: "on",
  max_parallel_workers_per_gather: 0,
  jit: "off",
};

const assign = (scope: "session" | "local", values: Readonly<Record<string, string | number>>) =>
  Object.entries(values)
    .map(([name, value]) => `set ${scope} ${name} = '${value}'`)
    .join("; ");

/** Statements that set the settings of a transaction. */
export const setForTransaction = assign("local", settings);

const sessionSettings = {
  ...settings,
  default_transaction_isolation: "read committed",
  idle_session_timeout: 0,
};

/** Returns statements that set the settings of a session, and its timeouts. `transaction_timeout` is unknown before PostgreSQL 17. */
export const setForSession = (deadlineMs: number): string => `
  ${assign("session", sessionSettings)}; ${setTimeouts("session", deadlineMs)};
  do $$ begin set transaction_timeout = 0; exception when undefined_object then null; end $$`;

/**
 * Returns statements that set the timeouts of a session, or of a transaction (`local`). They are shorter than the deadline of its calls, if
 * there is one, because an error of the server costs no connection. By SET: a pooler rejects them in the startup message.
 */
export const setTimeouts = (scope: "session" | "local", deadlineMs: number): string =>
  assign(scope, {
    statement_timeout: Math.floor(deadlineMs * 0.9),
    lock_timeout: Math.floor(deadlineMs * 0.8),
    idle_in_transaction_session_timeout: deadlineMs === 0 ? 0 : idleInTransactionMs,
  });

/** After this time the server releases the locks of a core that is stopped or unreachable. */
const idleInTransactionMs = 10_000;
