import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { programPaths } from "../bundle/bundle-programs.ts";
import type { LabPki } from "./ca/pki.ts";
import type { LabContext } from "./context.ts";
import { labCoreEnvironment } from "./core-environment.ts";
import { type Edge, type EdgeOptions, startEdge } from "./edge.ts";
import type { Finished, Processes, Running } from "./processes.ts";
import { untilOk } from "./wait-until.ts";

/** Header in which the edge passes the client certificate to core. */
export const clientCertificateHeader = "X-Client-Cert";

/** Starts an edge with a lab's certificates in front of core; it sets the header that core trusts. */
export const startLabEdge = async (
  pki: LabPki,
  options: Omit<EdgeOptions, "certPem" | "keyPem" | "clientCaPem" | "clientCertificateHeader">,
): Promise<Edge> =>
  startEdge({
    certPem: await readFile(pki.edge.certFile, "utf8"),
    keyPem: await readFile(pki.edge.keyFile, "utf8"),
    clientCaPem: await readFile(pki.enrollmentCa.certFile, "utf8"),
    clientCertificateHeader,
    ...options,
  });

/** Core as a process of its own, which can be killed and started again on the same ports. */
export interface CoreProcess {
  readonly httpUrl: string;
  /** `host:port` of the mTLS listener. */
  readonly ingestEndpoint: string;
  /** Starts it, and does not wait until it is ready. */
  start(restart?: CoreRestart): void;
  /** Resolves once HTTP and ingest are ready. */
  ready(): Promise<void>;
  /** Runs a command of `svc-server` in core's environment to its end. */
  run(args: readonly string[]): Promise<Finished>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** What a start has beside the settings. */
export interface CoreRestart {
  /** Options of Node. */
  nodeFlags?: readonly string[];
  /** Variables over those of the settings. */
  env?: Readonly<Record<string, string>>;
}

/** The settings that core receives through its environment. */
export interface CoreSettings {
  dir: string;
  databaseUrl: string;
  pki: LabPki;
  authTokenSecret: string;
  httpPort: number;
  ingestPort: number;
  /** Variables over the usual ones. */
  env?: Readonly<Record<string, string>>;
}

/** Prepares the bundled core; writes its secret to `<dir>/auth-token-secret`. */
export const createCoreProcess = async (
  settings: CoreSettings,
  { processes, clock, signal }: { processes: Processes } & Pick<LabContext, "clock" | "signal">,
): Promise<CoreProcess> => {
  const secretFile = join(settings.dir, "auth-token-secret");
  await writeFile(secretFile, `${settings.authTokenSecret}\n`, { mode: 0o600 });
  const { SVC_AUTH_TOKEN_SECRET: _, ...usual } = labCoreEnvironment(settings);
  const env = {
    ...usual,
    SVC_AUTH_TOKEN_SECRET_FILE: secretFile,
    SVC_TRUST_LOOPBACK_OPS: "true",
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
    // Below core's limit of six a minute, with room for those that the demo itself sends as a host.
    SVC_HEARTBEAT_INTERVAL: "20s",
    ...settings.env,
  };
  const httpUrl = `http://127.0.0.1:${settings.httpPort}`;
  const program = process.env.SVC_LAB_CORE ?? programPaths["svc-server"];
  let running: Running | undefined;
  return {
    httpUrl,
    ingestEndpoint: `127.0.0.1:${settings.ingestPort}`,
    start: ({ nodeFlags = [], env: more = {} } = {}) => {
      running = processes.start({
        name: "core",
        args: [...nodeFlags, program],
        env: { ...env, ...more },
      });
    },
    run: (args) => processes.run({ args: [program, ...args], env }),
    ready: async () => {
      const urls = ["/readyz", "/readyz/ingest"].map((path) => httpUrl + path);
      await untilOk({ clock, signal }, "core is ready", urls);
    },
    kill: async () => running?.kill(),
  };
};
