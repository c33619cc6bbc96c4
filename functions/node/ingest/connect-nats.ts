import {
  type Authenticator,
  connect,
  credsAuthenticator,
  type NatsConnection,
  type NodeConnectionOptions,
  nkeyAuthenticator,
} from "@nats-io/transport-node";
import type { NatsConfig } from "#functions/config/nats-config.ts";
import type { Clock } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import { readCertificates, readKeyFile, withConfigError } from "../config-files.ts";
import { loadFiles, type ReloadOptions } from "../reload-files.ts";
import { StartFault } from "../run-configured.ts";

const startTimeoutMs = 60_000;
const retryDelayMs = 500;

/**
 * Connects to a NATS server, and runs `prepare` with the connection; retries for up to a minute while no server is available. The connection then
 * moves between the servers by itself. Throws `ConfigError` for a file that cannot be read, and `StartFault`.
 */
export const connectNats = async <Prepared>(
  config: NatsConfig,
  {
    clock,
    log,
    natsFiles,
    name = "svc-server ingest",
  }: { clock: Clock; log: Log; natsFiles?: NatsFiles; name?: string },
  prepare: (connection: NatsConnection) => Promise<Prepared>,
): Promise<Prepared> => {
  const files = natsFiles ?? (await followNatsFiles(config, log));
  const options = { ...natsOptions(config, files.current), name };
  const deadline = clock.monotonic() + startTimeoutMs;
  for (;;) {
    let connection: NatsConnection | undefined;
    try {
      connection = await connect(options);
      return await prepare(connection);
    } catch (err) {
      await connection?.close().catch(() => undefined);
      if (!isPassing(err)) throw err;
      if (clock.monotonic() > deadline)
        throw new StartFault(
          `SVC_NATS_URLS: JetStream is not available (${(err as Error).message})`,
          { cause: err },
        );
      log.warn({ err }, "JetStream is not available yet");
      await clock.sleep(retryDelayMs);
    }
  }
};

/** Failures of a cluster that starts, elects, or is not there: errors of the client and of the operating system. */
const isPassing = (error: unknown): boolean =>
  error instanceof Error &&
  !["ConfigError", "AuthorizationError", "InvalidArgumentError"].includes(error.name);

/** The files for NATS, which the client reads for each connection; null without NATS. */
export type NatsFiles = Awaited<ReturnType<typeof followNatsFiles>> | null;

/** Loads the files that the configuration names, and follows them. Throws `ConfigError` for one that cannot be used. */
export const followNatsFiles = (
  { caFile, credentialsFile }: NatsConfig,
  log: ReloadOptions<unknown>["log"],
) =>
  loadFiles({
    name: "NATS",
    paths: [caFile, credentialsFile].filter((path) => path !== null),
    log,
    load: async () => ({
      ca:
        caFile === null
          ? ""
          : await withConfigError("SVC_NATS_CA_FILE", () =>
              readCertificates(caFile).toString("latin1"),
            ),
      ...(credentialsFile === null
        ? { credentials: "", authenticate: () => undefined }
        : await withConfigError("SVC_NATS_CREDENTIALS_FILE", () => {
            const contents = readKeyFile(credentialsFile);
            return {
              credentials: contents.toString("utf8"),
              authenticate: authenticatorOf(contents),
            };
          })),
    }),
  });

const natsOptions = (
  { servers, isEncrypted, caFile, credentialsFile }: NatsConfig,
  files: NonNullable<NatsFiles>["current"],
): NodeConnectionOptions => {
  // Read at each connection.
  const tls = {
    get ca() {
      return files().ca;
    },
  };
  return {
    servers: [...servers],
    // Leaves a server that hangs within 6 s.
    pingInterval: 2_000,
    maxPingOut: 2,
    timeout: 5_000,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    ignoreAuthErrorAbort: true,
    ...(isEncrypted && { tls: caFile === null ? {} : tls }),
    ...(credentialsFile !== null && { authenticator: (nonce) => files().authenticate(nonce) }),
  };
};

/** A `.creds` file holds a JWT and a seed; otherwise the file is the seed of an NKEY. Throws unless it can sign. */
const authenticatorOf = (credentials: Buffer): Authenticator => {
  const authenticator = credentials.includes("BEGIN NATS USER JWT")
    ? credsAuthenticator(credentials)
    : nkeyAuthenticator(Buffer.from(credentials.toString("utf8").trim()));
  try {
    authenticator("nonce");
    return authenticator;
  } catch {
    // The client's message may quote the file.
    throw new Error("holds no credentials of NATS");
  }
};
