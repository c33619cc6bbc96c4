import {
  type DatabaseTls,
  splitDatabaseUrl,
  withoutTlsParameters,
} from "../../../kit/database-url.ts";
import type { DatabaseOptions } from "./database.ts";
import type { ConnectionOptions } from "./pool/connection-pool.ts";
import { startupSettings } from "./session-settings.ts";

/** Returns how postgres.js connects to the servers of `options`. */
export const connectionSettings = ({
  url: given,
  servers,
  openSocket = servers?.open,
  applicationName = "svc-server",
  connectTimeoutSeconds = 3,
  pooled = false,
}: DatabaseOptions): Pick<ConnectionOptions, "url" | "settings" | "openSocket"> => {
  // `servers` chooses among several servers; without it, the first is used.
  const split = splitDatabaseUrl(given);
  const { url, host } = splitUnixSocket(withoutTlsParameters(split.servers[0] ?? given));
  return {
    url,
    openSocket,
    settings: {
      ...(host === undefined ? {} : { host }),
      // Without `servers`, which read files, the runtime's CAs decide.
      ssl: servers?.tls ?? tlsWithoutFiles(split.tls),
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

const tlsWithoutFiles = (tls: DatabaseTls | undefined) =>
  tls === undefined
    ? false
    : tls.mode === "require"
      ? ("require" as const)
      : ("verify-full" as const);

/** In both forms, since no statement outside of a transaction can set `bytea_output` behind a pooler. postgres.js reads hex alone. */
const bytea = {
  to: 17,
  from: [17],
  serialize: (bytes: Uint8Array | string) =>
    `\\x${Buffer.from(bytes as Uint8Array).toString("hex")}`,
  parse: (text: string): Uint8Array =>
    text.startsWith("\\x")
      ? Buffer.from(text.slice(2), "hex")
      : Buffer.from(
          text.replace(/\\(\\|\d{3})/g, (_, code: string) =>
            code === "\\" ? code : String.fromCharCode(Number.parseInt(code, 8)),
          ),
          "latin1",
        ),
};

/** drizzle writes and reads dates itself, and writes JSON. */
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
