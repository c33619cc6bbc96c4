import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { bundlePrograms, programPaths } from "../../bundle/bundle-programs.ts";
import { type IngestCore, prepareIngestCore } from "../../lab/ingest-core.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../../postgres/embedded-database.ts";
import { cpuSecondsOf, memoryOf, startProcess } from "../support/processes.ts";

/** Core, its PostgreSQL and a TLS edge in front of it, each a process of its own. */
export interface PeerCore extends AsyncDisposable {
  database: EmbeddedDatabase;
  files: IngestCore;
  ingestPort: number;
  /** The port of the edge, for `localhost`. */
  edgePort: number;
  /** Authority of the edge's and the ingest listener's certificates, in PEM. */
  ca: string;
  /** CPU seconds so far, of each process. */
  cpu(): { core: number; postgres: number; edge: number };
  peakMb(): number;
  /** Kills core with SIGKILL; resolves once it has ended. */
  kill(): Promise<void>;
}

/** Starts core from its bundle on a durable PostgreSQL. `seed` fills the database before core starts. */
export const startPeerCore = async ({
  env = {},
  seed = async () => undefined,
}: {
  env?: Readonly<Record<string, string>>;
  seed?: (database: EmbeddedDatabase, files: IngestCore) => Promise<unknown>;
} = {}): Promise<PeerCore> => {
  await bundlePrograms(undefined, ["svc-server"]);
  const resources = new AsyncDisposableStack();
  const database = resources.use(await openEmbeddedDatabase());
  const files = await prepareIngestCore(database.url, { env, program: programPaths["svc-server"] });
  resources.defer(() => files.remove());
  await seed(database, files);
  await database.sql`vacuum analyze`;
  const core = await files.start();
  resources.defer(() => void core.process.kill("SIGKILL"));
  const { certFile, keyFile } = files.pki.edge;
  const edgeEnv = { ...process.env, CERT_FILE: certFile, KEY_FILE: keyFile, CORE_PORT: String(core.port) };
  const edge = await startProcess([new URL("../support/tls-edge.ts", import.meta.url).pathname], "ready", edgeEnv);
  resources.defer(() => edge.stop());
  const corePid = core.process.pid ?? 0;
  return {
    database,
    files,
    ingestPort: core.ingestPort,
    edgePort: Number(edge.records[0]?.port),
    ca: await readFile(files.pki.serverCaFile, "utf8"),
    cpu: () => ({
      core: cpuSecondsOf(corePid),
      postgres: cpuSecondsOf(database.pid),
      edge: cpuSecondsOf(edge.pid),
    }),
    peakMb: () => memoryOf(corePid).peakMb,
    kill: async () => {
      const ended = once(core.process, "exit");
      core.process.kill("SIGKILL");
      await ended;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
};
