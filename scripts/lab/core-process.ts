import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../kit/clock.ts";
import { programPaths } from "../bundle/bundle-programs.ts";
import type { LabPki } from "../lab-ca/pki.ts";
import { testTenantId } from "./people.ts";
import type { Processes, Running } from "./processes.ts";
import { waitUntil } from "./wait-until.ts";

/** Header in which the edge tells core who the collector is. */
export const clientCertificateHeader = "X-Client-Cert";

/** Core as a process of its own: it can be killed, and started again on the same ports. */
export interface CoreProcess {
  readonly httpUrl: string;
  /** `host:port` of the mTLS listener. */
  readonly ingestEndpoint: string;
  /** Starts it; it need not be ready yet. */
  start(): void;
  /** Resolves once HTTP and ingest are ready. */
  ready(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** What core is told by its environment. */
export interface CoreSettings {
  dir: string;
  databaseUrl: string;
  lab: LabPki;
  authTokenSecret: string;
  httpPort: number;
  ingestPort: number;
  /** The directory that people come from; without one, whoever starts core seeds them. */
  directory?: { url: string; keyFile: string };
  /** Variables over the usual ones. */
  env?: Readonly<Record<string, string>>;
}

/** A core that has not been started. Everything it needs is in its environment and in files of `dir`. */
export const createCoreProcess = async (
  settings: CoreSettings,
  { processes, clock, signal }: { processes: Processes; clock: Clock; signal: AbortSignal },
): Promise<CoreProcess> => {
  const env = await environmentOf(settings);
  const httpUrl = `http://127.0.0.1:${settings.httpPort}`;
  let running: Running | undefined;
  return {
    httpUrl,
    ingestEndpoint: `127.0.0.1:${settings.ingestPort}`,
    start: () => {
      running = processes.start({ name: "core", args: [programPaths["svc-server"]], env });
    },
    ready: () =>
      waitUntil({ what: "core is ready", clock, signal }, async () => {
        for (const path of ["/readyz", "/readyz/ingest"]) {
          const response = await fetch(httpUrl + path, { signal: AbortSignal.timeout(5_000) });
          if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
        }
        return true;
      }).then(() => undefined),
    kill: async () => running?.kill(),
  };
};

const environmentOf = async (settings: CoreSettings): Promise<Record<string, string>> => {
  const { dir, lab } = settings;
  const directoryKeyFile = settings.directory?.keyFile ?? join(dir, "directory.json");
  const secretFile = join(dir, "auth-token-secret");
  // Core requires one, and goes on without people when nothing can be synced with it.
  if (settings.directory === undefined) await writeFile(directoryKeyFile, "{}\n", { mode: 0o600 });
  await writeFile(secretFile, `${settings.authTokenSecret}\n`, { mode: 0o600 });
  return {
    PORT: String(settings.httpPort),
    SVC_HTTP_HOST: "127.0.0.1",
    SVC_DATABASE_URL: settings.databaseUrl,
    SVC_TENANT_ID: testTenantId,
    SVC_AUTH_TOKEN_SECRET_FILE: secretFile,
    SVC_DIRECTORY_DOMAIN: "example.test",
    SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: directoryKeyFile,
    ...(settings.directory === undefined ? {} : { SVC_DIRECTORY_API_URL: settings.directory.url }),
    SVC_TRUST_LOOPBACK_OPS: "true",
    SVC_INGEST_GRPC_ADDR: `127.0.0.1:${settings.ingestPort}`,
    SVC_INGEST_SERVER_CERT_FILE: lab.ingest.certFile,
    SVC_INGEST_SERVER_KEY_FILE: lab.ingest.keyFile,
    SVC_INGEST_CLIENT_CA_FILE: lab.enrollmentCa.certFile,
    SVC_INGEST_REQUIRE_ENROLLMENT: "true",
    SVC_ENROLLMENT_CA_CERT_FILE: lab.enrollmentCa.certFile,
    SVC_ENROLLMENT_CA_KEY_FILE: lab.enrollmentCa.keyFile,
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
    // Below core's limit of six a minute with room for those that the demo itself sends in a host's name.
    SVC_HEARTBEAT_INTERVAL: "20s",
    ...settings.env,
  };
};
