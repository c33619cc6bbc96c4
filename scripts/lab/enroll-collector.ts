import { chown, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseDocument } from "yaml";
import type { Credentials } from "#collector/identity/credentials.ts";
import { openIdentityDirectory } from "#collector/identity/identity-directory.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { rootAcknowledgement } from "#proto/collector-config/schema.ts";
import type { Labels } from "#proto/labels.ts";
import { programPaths } from "../bundle/bundle-programs.ts";
import type { LabCore } from "./lab-core.ts";
import type { ProgramCommand, Running } from "./processes.ts";

/** A host with its enrolled collector, which is a process of its own while it runs. */
export interface EnrolledCollector {
  readonly identity: string;
  readonly configFile: string;
  /** Reads certificate and key as they are on disk. */
  credentials(): Promise<Credentials>;
  /** Starts it, with options of Node if its command is a program of Node. */
  start(nodeFlags?: readonly string[]): Running;
  /** SIGTERM: it forwards what it has, and the account of its time. */
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** The host to enroll, in a directory of its own. */
export interface Enrollment {
  name: string;
  dir: string;
  token: string;
  sources: readonly object[];
  /** None by default. */
  labels?: Labels;
  /** How to run the collector; the bundled program by default. */
  command?: ProgramCommand;
  /** The user that the command runs as, if not that of this process. */
  owner?: number;
}

/** The addresses and authorities by which the host reaches core. */
export interface EnrollmentTarget extends Pick<LabCore, "ingestEndpoint" | "pki" | "processes"> {
  edgeUrl: string;
  identityPrefix: string;
}

/** Returns a config with these sources, and labels if there are any; its comments are kept. */
export const withSources = (yaml: string, sources: readonly object[], labels?: Labels): string => {
  const config = parseDocument(yaml);
  config.set("sources", config.createNode(sources));
  if (labels !== undefined) config.set("labels", config.createNode(labels));
  return config.toString({ lineWidth: 0 });
};

/** Runs the collector's own `enroll` command, then adds sources and labels to its config and keeps the comments. */
export const enrollCollector = async (
  {
    name,
    dir,
    token,
    sources,
    labels,
    command = { args: [programPaths["svc-collector"]] },
    owner,
  }: Enrollment,
  { edgeUrl, ingestEndpoint, pki, identityPrefix, processes }: EnrollmentTarget,
): Promise<EnrolledCollector> => {
  await mkdir(dir, { recursive: true });
  const tokenFile = join(dir, "token");
  await writeFile(tokenFile, token, { mode: 0o600 });
  if (owner !== undefined) await chown(tokenFile, owner, owner);
  const configDir = join(dir, "etc");
  const configFile = join(configDir, "collector.yaml");
  const isRoot = process.geteuid?.() === 0;
  const flags = {
    core: edgeUrl,
    ingest: ingestEndpoint,
    "token-file": tokenFile,
    "device-id": name,
    "identity-prefix": identityPrefix,
    "ca-bundle": pki.serverCaFile,
    "config-dir": configDir,
    ...(isRoot && { "allow-root-acknowledged": rootAcknowledgement }),
  };
  const given = Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, value]);
  const { code, stdout, stderr } = await processes.run({
    ...command,
    args: [...command.args, "enroll", "--json", ...given],
  });
  await rm(tokenFile);
  if (code !== 0)
    throw new Error(`${name} could not enroll (exit code ${code}): ${stdout}${stderr}`);
  const { identity } = JSON.parse(stdout) as { identity: string };
  await writeFile(configFile, withSources(await readFile(configFile, "utf8"), sources, labels));

  let running: Running | undefined;
  return {
    identity,
    configFile,
    credentials: async () => {
      const found = await openIdentityDirectory(join(configDir, "identity"), {
        entropy: systemEntropy,
      }).current();
      if (found === undefined) throw new Error(`${name} has no certificate`);
      return found;
    },
    start: (nodeFlags = []) => {
      const args = [...nodeFlags, ...command.args, "run", "--config", configFile];
      running = processes.start({ ...command, name, args });
      return running;
    },
    stop: async () => void (await running?.stop()),
    kill: async () => running?.kill(),
  };
};
