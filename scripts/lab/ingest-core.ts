import { type ChildProcess, type SpawnOptionsWithStdioTuple, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { openTemporaryFolder } from "../temporary-folder.ts";
import { issueClient } from "./ca/issue-client.ts";
import { createLabPki, type LabPki, readCredentialFiles } from "./ca/pki.ts";
import { labCoreEnvironment } from "./core-environment.ts";

const main = fileURLToPath(new URL("../../functions/main.ts", import.meta.url));

/** `svc-server` as a process of its own, with an ingest listener for `localhost` that needs no enrollment. */
export interface IngestCore {
  /** PEM of the authority of its server certificate. */
  caPem: string;
  /** Its certificates and authorities, as files. */
  pki: LabPki;
  /** Starts it, also after a kill, or its command `args`; resolves once it logs that it is ready. `env` replaces more variables. */
  start(options?: {
    args?: readonly string[];
    env?: Readonly<Record<string, string>>;
  }): Promise<{ port: number; ingestPort: number; process: ChildProcess }>;
  /** Issues a client certificate for one URI; returns PEM. */
  client(uri: string): Promise<{ cert: string; key: string }>;
  /** Removes its files. */
  remove(): Promise<void>;
}

/**
 * Prepares files and environment of a core on a database; `env` replaces the usual variables. With `ingestPort` it listens on the same port
 * after each start. It runs from its sources unless `program` is a bundle.
 */
export const prepareIngestCore = async (
  databaseUrl: string,
  {
    ingestPort = 0,
    env: given = {},
    program = main,
  }: { ingestPort?: number; env?: Readonly<Record<string, string>>; program?: string } = {},
): Promise<IngestCore> => {
  const { path, remove } = await openTemporaryFolder("core");
  const lab = join(path, "lab");
  const pki = await createLabPki({ dir: lab });
  const env = {
    ...labCoreEnvironment({ databaseUrl, pki, ingestPort }),
    PATH: process.env.PATH,
    SVC_INGEST_REQUIRE_ENROLLMENT: "false",
    ...given,
  };
  return {
    caPem: await readFile(pki.serverCaFile, "utf8"),
    pki,
    async start({ args = [], env: more = {} } = {}) {
      const options: SpawnOptionsWithStdioTuple<"ignore", "pipe", "inherit"> = {
        env: { ...env, ...more },
        stdio: ["ignore", "pipe", "inherit"],
      };
      const child = spawn(process.execPath, [program, ...args], options);
      const lines = createInterface({ input: child.stdout });
      const ready = new Promise<Record<string, number>>((resolve, reject) => {
        lines.on("line", (line) => {
          if (line.includes('"msg":"ready"')) resolve(JSON.parse(line));
        });
        once(child, "exit").then(() => reject(new Error("core ended before it was ready")), reject);
      });
      const { port = 0, ingest_port = 0 } = await ready;
      return { port, ingestPort: ingest_port, process: child };
    },
    async client(identity) {
      return readCredentialFiles(await issueClient({ dir: lab, identity }));
    },
    remove,
  };
};
