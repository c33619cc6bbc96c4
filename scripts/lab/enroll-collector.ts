import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseDocument } from "yaml";
import type { Credentials } from "../../collector/identity/credentials.ts";
import { openIdentityDirectory } from "../../collector/identity/identity-directory.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import { rootAcknowledgement } from "../../proto/collector-config/schema.ts";
import { programPaths } from "../bundle/bundle-programs.ts";
import type { Processes, Running } from "./processes.ts";

/** A host of the demo with its collector, enrolled; the collector is a process of its own while it runs. */
export interface DemoCollector {
  readonly name: string;
  readonly identity: string;
  /** Certificate and key as they are on disk, for what the demo says in this collector's name. */
  pair(): Promise<Credentials>;
  start(): void;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** How a collector reaches core. */
export interface EnrollTarget {
  /** The edge's URL. */
  coreUrl: string;
  ingestEndpoint: string;
  caFile: string;
  identityPrefix: string;
}

/** Runs the collector's own `enroll` command in a directory of its own, then gives its config the sources. */
export const enrollCollector = async (
  options: { name: string; dir: string; token: string; sources: readonly object[]; target: EnrollTarget },
  processes: Processes,
): Promise<DemoCollector> => {
  const { name, dir, token, sources, target } = options;
  await mkdir(dir, { recursive: true });
  const tokenFile = join(dir, "token");
  await writeFile(tokenFile, token, { mode: 0o600 });
  const configDir = join(dir, "etc");
  const configFile = join(configDir, "collector.yaml");
  const { code, stdout, stderr } = await processes.run({
    args: [
      ...[
        programPaths["svc-collector"],
        "enroll",
        "--json",
        "--core",
        target.coreUrl,
        "--ingest",
        target.ingestEndpoint,
      ],
      ...["--token-file", tokenFile, "--device-id", name, "--identity-prefix", target.identityPrefix],
      ...["--ca-bundle", target.caFile, "--config-dir", configDir],
      ...(process.geteuid?.() === 0 ? ["--allow-root-acknowledged", rootAcknowledgement] : []),
    ],
  });
  await rm(tokenFile);
  if (code !== 0) throw new Error(`${name} could not enroll (exit code ${code}): ${stdout}${stderr}`);
  const { identity } = JSON.parse(stdout) as { identity: string };
  await setSources(configFile, sources);

  let running: Running | undefined;
  return {
    name,
    identity,
    pair: async () => {
      const pair = await openIdentityDirectory(join(configDir, "identity"), { entropy: systemEntropy }).current();
      if (pair === undefined) throw new Error(`${name} has no certificate`);
      return pair;
    },
    start: () => {
      running = processes.start({ name, args: [programPaths["svc-collector"], "run", "--config", configFile] });
    },
    kill: async () => running?.kill(),
  };
};

/** Edits the config as an operator would, comments kept. */
export const setSources = async (configFile: string, sources: readonly object[]): Promise<void> => {
  const document = parseDocument(await readFile(configFile, "utf8"));
  document.set("sources", document.createNode(sources));
  await writeFile(configFile, document.toString({ lineWidth: 0 }));
};
