import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseDocument } from "yaml";
import { rootAcknowledgement } from "#proto/collector-config/schema.ts";
import type { LabPki } from "#scripts/lab/ca/pki.ts";
import type { OperatorApi } from "#scripts/lab/operator-api.ts";
import { findPorts } from "#scripts/ports.ts";
import { logged, type Program, startProgram, stopProgram } from "#tests/support/program.ts";
import { startLoad } from "../chaos/collector-load.ts";
import type { CheckedOut } from "./previous.ts";

/** The prefix of the identities of an upgrade's hosts. */
export const identityPrefix = "https://fleet.upgrade/d/";
const recordsPerSecond = 200;

/** Where programs come from: a working tree, and the Node that runs them. */
export type Revision = Pick<CheckedOut, "dir" | "node">;

/** Kills a program that a failed run left behind. */
export const end = async (program: Program) => {
  if (!program.hasExited) program.child.kill("SIGKILL");
  await program.exited;
};

/** Enrolls a host under load whose collector can be replaced by that of another revision. */
export const enrollHost = async (
  options: {
    dir: string;
    name: string;
    token: string;
    edgeUrl: string;
    ingestPort: number;
    pki: LabPki;
  },
  revision: Revision,
) => {
  const { dir, name, edgeUrl, ingestPort, pki } = options;
  const identity = identityPrefix + name;
  const configDir = join(dir, "etc");
  const log = join(dir, "logs", "app.log");
  const tokenFile = join(dir, "token");
  const config = join(configDir, "collector.yaml");
  await mkdir(join(dir, "logs"), { recursive: true });
  await appendFile(log, "");
  await writeFile(tokenFile, options.token, { mode: 0o600 });
  const run = (of: Revision, ...args: string[]) =>
    startProgram(join(of.dir, "collector/main.ts"), args, {}, of.node);
  const enroll = run(
    revision,
    "enroll",
    "--core",
    edgeUrl,
    "--ingest",
    `localhost:${ingestPort}`,
    "--token-file",
    tokenFile,
    "--device-id",
    name,
    "--identity-prefix",
    identityPrefix,
    "--ca-bundle",
    pki.serverCaFile,
    "--config-dir",
    configDir,
    ...(process.geteuid?.() === 0 ? ["--allow-root-acknowledged", rootAcknowledgement] : []),
  );
  if ((await enroll.exited) !== 0) throw new Error(`${name} could not enroll: ${enroll.stderr}`);
  const [otlpPort] = await findPorts(1);
  const document = parseDocument(await readFile(config, "utf8"));
  const sources = [
    { type: "otlp", grpc: { listen: `127.0.0.1:${otlpPort}` } },
    { type: "file", include: [log], start_at: "beginning" },
  ];
  document.setIn(["sources"], document.createNode(sources));
  // Management requests take the way of the frames, and so move to the other core with them.
  document.setIn(["management", "core_url"], `https://localhost:${ingestPort}`);
  document.setIn(["management", "heartbeat_interval_seconds"], 10);
  document.setIn(["management", "apply_desired_config"], true);
  document.setIn(["management", "file_roots"], [dir]);
  await writeFile(config, document.toString());
  let program: Program | undefined;
  const load = startLoad(log, `127.0.0.1:${otlpPort}`, recordsPerSecond);
  const owed = () =>
    new Set([
      ...Array.from({ length: load.lines() }, (_, line) => `line ${line}`),
      ...Array.from(load.accepted, (span) => `span-${span}`),
    ]);
  return {
    identity,
    load,
    owed,
    start: (of: Revision) => {
      program = run(of, "run", "--config", config);
    },
    stop: () => (program === undefined ? Promise.resolve(null) : stopProgram(program)),
    /** Assigns a config to it through a core, and returns its hash once the collector has promoted it. */
    assign: async (api: OperatorApi, identityId: string) => {
      const desired = parseDocument(await readFile(config, "utf8"));
      desired.addIn(
        ["sources"],
        desired.createNode({ type: "file", include: [join(dir, "logs", "other.log")] }),
      );
      const body = { name: crypto.randomUUID(), yaml: desired.toString() };
      const published = await api<{ id: string; config_hash: string }>(
        "admin",
        "POST",
        "/v1/collector/configs",
        body,
      );
      await api("admin", "POST", `/v1/collector/configs/${published.id}/assignments`, {
        identity_ids: [identityId],
      });
      if (program)
        await logged(program, "the desired config is promoted").catch((cause: unknown) => {
          throw new Error(
            `${name} did not promote its config: ${JSON.stringify(program?.records.filter(({ msg }) => msg !== "following a file").slice(-9))}`,
            {
              cause,
            },
          );
        });
      return published.config_hash;
    },
    /** Renews its certificate through the core that serves it. */
    renew: async (by: Revision): Promise<void> => {
      const renewal = run(by, "renew", "--config", config);
      if ((await renewal.exited) !== 0)
        throw new Error(`${name} could not renew: ${renewal.stderr}`);
    },
    queued: async (by: Revision) => {
      const diag = run(by, "diag", "--json", "--config", config);
      await diag.exited;
      return (diag.records[0] as { queue?: { records?: number } } | undefined)?.queue?.records ?? 0;
    },
    end: async () => {
      load.stop();
      if (program) await end(program);
    },
  };
};
