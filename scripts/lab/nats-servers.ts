import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection, nkeyAuthenticator } from "@nats-io/transport-node";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { findPorts, isListening } from "../ports.ts";
import { canRun, installPackage } from "./install-package.ts";
import { endChild } from "./processes.ts";
import { waitUntil } from "./wait-until.ts";

/** One NATS server. */
export interface NatsNode {
  name: string;
  /** `host:port` for clients. */
  address: string;
  pid(): number;
  /** Sends a signal: SIGSTOP, SIGCONT. */
  signal(signal: NodeJS.Signals): void;
  /** Kills the server; its files stay. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** NATS servers with JetStream on loopback: one, or a cluster. */
export interface RunningNats {
  nodes: readonly NatsNode[];
  addresses: string[];
  connection: NatsConnection;
  manager: JetStreamManager;
  /** Returns the node that leads a stream. */
  leaderOf(stream: string): Promise<NatsNode>;
  stop(): Promise<void>;
}

/** `NATS_SERVER` names another than the installed one: a newer version, for trials. */
const program = process.env.NATS_SERVER ?? "nats-server";
const waitMs = 60_000;

/** Reports whether `startNats` can start: without nats-server, tests that need it are reported as skipped. */
export const canStartNats = (): Promise<boolean> => canRun("nats-server", program);

/**
 * Starts `nodes` servers and connects to them. Installs Debian's package where it is missing and this process is root, otherwise throws.
 * `settings` is text for the configuration of each, `dirs` where each keeps its files. `syncAlways` needs nats-server 2.10.
 */
export const startNats = async ({
  nodes: count = 1,
  settings = "",
  dirs,
  fileStoreBytes = 1 << 30,
  syncAlways = false,
  credentials,
}: {
  nodes?: number;
  settings?: string;
  dirs?: readonly string[];
  fileStoreBytes?: number;
  syncAlways?: boolean;
  /** CA and NKEY of this program's own connection, for servers that demand TLS and an NKEY. */
  credentials?: { caFile: string; seed: Uint8Array };
} = {}): Promise<RunningNats> => {
  await installPackage("nats-server", program);
  const dir = await mkdtemp(join(tmpdir(), "svc-nats-"));
  const ports = await findPorts(count * 2, systemEntropy);
  const routePorts = ports.slice(count);
  const jetStream = `max_file_store: ${fileStoreBytes}${syncAlways ? ", sync_interval: always" : ""}`;
  const nodes = await Promise.all(
    ports.slice(0, count).map(async (port, index) => {
      const name = `n${index}`;
      const store = dirs?.[index] ?? join(dir, name);
      await mkdir(store, { recursive: true });
      const config = join(dir, `${name}.conf`);
      await writeFile(
        config,
        `server_name: ${name}\nlisten: 127.0.0.1:${port}\njetstream { store_dir: "${store}", ${jetStream} }\n` +
          `${count > 1 ? clusterOf(routePorts, index) : ""}\n${settings}\n`,
      );
      const node = createNode(name, config, `127.0.0.1:${port}`);
      await node.start();
      return node;
    }),
  );
  const secured = credentials && {
    tls: { caFile: credentials.caFile },
    authenticator: nkeyAuthenticator(credentials.seed),
  };
  const addresses = nodes.map(({ address }) => address);
  const connection = await connect({
    servers: addresses,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 100,
    ...secured,
  });
  const manager = await openManager(connection, count);
  return {
    nodes,
    addresses,
    connection,
    manager,
    async leaderOf(stream) {
      return waitUntil({ what: "the stream has a leader", ...waiting() }, async () => {
        const info = await manager.streams.info(stream).catch(() => undefined);
        return nodes.find(({ name }) => name === info?.cluster?.leader);
      });
    },
    async stop() {
      await connection.close();
      await Promise.all(nodes.map(({ kill }) => kill()));
      await rm(dir, { recursive: true, force: true });
    },
  };
};

const waiting = () => ({
  clock: systemClock,
  signal: AbortSignal.timeout(waitMs),
  everyMs: 50,
  timeoutMs: waitMs,
});

/** Resolves once JetStream is available on all nodes. */
const openManager = async (connection: NatsConnection, count: number) => {
  const manager = await waitUntil({ what: "JetStream is available", ...waiting() }, () =>
    jetstreamManager(connection, { timeout: 1_000 }).catch(() => undefined),
  );
  // A cluster that has a leader may not know yet that the other nodes have room.
  const trial = { name: "TRIAL", subjects: ["trial"], num_replicas: count };
  if (count > 1)
    await waitUntil({ what: "every node takes a replica", ...waiting() }, () =>
      manager.streams.add(trial).then(
        () => manager.streams.delete(trial.name),
        () => undefined,
      ),
    );
  return manager;
};

/** Clients know every address, and behind a proxy they must not learn another. */
const clusterOf = (routePorts: readonly number[], index: number): string => {
  const routes = routePorts.map((route) => `nats://127.0.0.1:${route}`).join(",");
  return `cluster { name: test, listen: 127.0.0.1:${routePorts[index]}, no_advertise: true, routes: [${routes}] }`;
};

const createNode = (name: string, config: string, address: string): NatsNode => {
  let child: ChildProcess | undefined;
  return {
    name,
    address,
    start: async () => {
      child = spawn(program, ["-c", config], { stdio: ["ignore", "ignore", "pipe"] });
      let stderr = "";
      child.stderr
        ?.setEncoding("utf8")
        .on("data", (chunk: string) => (stderr = (stderr + chunk).slice(-4_000)));
      const dead = new AbortController();
      child.once("exit", () => dead.abort(new Error(`nats-server ended: ${stderr}`)));
      const until = { ...waiting(), signal: dead.signal, everyMs: 10 };
      await waitUntil(
        { what: "nats-server listens", ...until },
        async () => (await isListening(address)) || undefined,
      );
    },
    kill: () => endChild(child, "SIGKILL"),
    pid: () => child?.pid ?? 0,
    signal: (signal) => void child?.kill(signal),
  };
};
