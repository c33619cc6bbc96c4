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
import { readKeyFile, readTrustedFile, withConfigError } from "../config-files.ts";
import { StartFault } from "../run-configured.ts";

const startTimeoutMs = 60_000;
const retryDelayMs = 500;

/**
 * Connects to a NATS server, and runs `prepare` with the connection; retries for up to a minute while no server is available. The connection then
 * moves between the servers by itself. Throws `ConfigError` for a file that cannot be read, and `StartFault`.
 */
export const connectNats = async <Prepared>(
  config: NatsConfig,
  { clock, log, name = "svc-server ingest" }: { clock: Clock; log: Log; name?: string },
  prepare: (connection: NatsConnection) => Promise<Prepared>,
): Promise<Prepared> => {
  const options = { ...(await readNatsOptions(config)), name };
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

/** Returns the options of a connection, with the files that the configuration names. Throws `ConfigError` for one that cannot be read. */
export const readNatsOptions = async (config: NatsConfig): Promise<NodeConnectionOptions> => {
  const { servers, isEncrypted, caFile, credentialsFile } = config;
  const ca =
    caFile &&
    (await withConfigError("SVC_NATS_CA_FILE", () => readTrustedFile(caFile).toString("utf8")));
  const credentials =
    credentialsFile &&
    (await withConfigError("SVC_NATS_CREDENTIALS_FILE", () => readKeyFile(credentialsFile)));
  return {
    servers: [...servers],
    // Leaves a server that hangs within 6 s.
    pingInterval: 2_000,
    maxPingOut: 2,
    timeout: 5_000,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    ignoreAuthErrorAbort: true,
    ...(isEncrypted && { tls: ca ? { ca } : {} }),
    ...(credentials && { authenticator: authenticatorOf(credentials) }),
  };
};

/** A `.creds` file holds a JWT and a seed; otherwise the file is the seed of an NKEY. */
const authenticatorOf = (credentials: Buffer): Authenticator =>
  credentials.includes("BEGIN NATS USER JWT")
    ? credsAuthenticator(credentials)
    : nkeyAuthenticator(Buffer.from(credentials.toString("utf8").trim()));
