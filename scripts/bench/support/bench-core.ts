import { bundlePrograms, programPaths } from "#scripts/bundle/bundle-programs.ts";
import type { IngestTarget } from "#scripts/lab/host-connection.ts";
import { type IngestCore, prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { endChild } from "#scripts/lab/processes.ts";
import { findPorts } from "#scripts/ports.ts";
import {
  type EmbeddedDatabase,
  openEmbeddedDatabase,
} from "#scripts/postgres/embedded-database.ts";
import { cpuSecondsOf, memoryOf, startProcess } from "./processes.ts";

/** Core and its durable PostgreSQL, each a process of its own; everything ends with the scope of `await using`. */
export interface BenchCore extends AsyncDisposable {
  database: EmbeddedDatabase;
  files: IngestCore;
  /** The process of core. */
  readonly pid: number;
  /** The port of plain HTTP. */
  httpPort: number;
  ingestPort: number;
  /** The port of the TLS edge in front of core, for `localhost`; 0 without one. */
  edgePort: number;
  /** The ingest listener, as a host reaches it. */
  ingest: IngestTarget;
  /** Authority of the edge's and the ingest listener's certificates, in PEM. */
  ca: string;
  /** CPU seconds so far, of each process. */
  cpu(): { core: number; postgres: number; edge: number };
  peakMb(): number;
  /** Kills core with SIGKILL; resolves once it has ended. */
  kill(): Promise<void>;
}

const edgeProgram = new URL("./tls-edge.ts", import.meta.url).pathname;

/** Starts core from its bundle, as it is installed, or another `program`: from its sources it takes 40 MB more. */
export const startBenchCore = async ({
  env = {},
  program = "",
  hasEdge = false,
}: {
  env?: Readonly<Record<string, string>>;
  program?: string;
  hasEdge?: boolean;
} = {}): Promise<BenchCore> => {
  if (program === "") await bundlePrograms(["svc-server"]);
  await using resources = new AsyncDisposableStack();
  const database = resources.use(await openEmbeddedDatabase());
  const [ingestPort = 0] = await findPorts(1);
  const files = await prepareIngestCore(database.url, {
    ingestPort,
    // The hosts of a bench share an address.
    env: { SVC_INGEST_HANDSHAKES_PER_ADDRESS: "10000", ...env },
    program: program || programPaths["svc-server"],
  });
  resources.defer(() => files.remove());
  const core = await files.start();
  resources.defer(() => void core.process.kill("SIGKILL"));
  const edge = hasEdge
    ? resources.adopt(await startEdge(files, core.port), ({ stop }) => stop())
    : undefined;
  const pid = core.process.pid ?? 0;
  const owned = resources.move();
  return {
    database,
    files,
    pid,
    httpPort: core.port,
    ingestPort,
    edgePort: Number(edge?.records[0]?.port ?? 0),
    ingest: { endpoint: `localhost:${ingestPort}`, caPem: files.caPem },
    ca: files.caPem,
    cpu: () => ({
      core: cpuSecondsOf(pid),
      postgres: cpuSecondsOf(database.pid),
      edge: edge === undefined ? 0 : cpuSecondsOf(edge.pid),
    }),
    peakMb: () => memoryOf(pid).peakMb,
    kill: async () => {
      await endChild(core.process, "SIGKILL");
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
};

const startEdge = ({ pki }: IngestCore, port: number) => {
  const { certFile, keyFile } = pki.edge;
  const env = { ...process.env, CERT_FILE: certFile, KEY_FILE: keyFile, CORE_PORT: String(port) };
  return startProcess([edgeProgram], "ready", env);
};
