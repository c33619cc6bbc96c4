import { readFileSync } from "node:fs";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { prepareIngestCore } from "../../lab/ingest-core.ts";
import {
  createOperatorApi,
  createPolicyWithToken,
  type OperatorApi,
} from "../../lab/operator-api.ts";
import { seedPeople } from "../../lab/people.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../../postgres/embedded-database.ts";
import { cpuSecondsOf, memoryOf } from "../support/processes.ts";
import { type FleetWorkers, startFleetWorkers } from "./workers.ts";

/** Identities are this and the device id. */
export const fleetPrefix = "spiffe://fleet.bench/";

/** Cores on one durable PostgreSQL, with a fleet that has not enrolled yet; everything ends with the scope of `await using`. */
export interface FleetLab extends AsyncDisposable {
  database: EmbeddedDatabase;
  workers: FleetWorkers;
  api: OperatorApi;
  token: string;
  caPem: string;
  apiPort(): number;
  ingestPorts(): number[];
  cores(): number;
  /** Kills all cores, and resolves when they have ended. */
  kill(): Promise<void>;
  /** Starts the cores again, at other ports, and tells the hosts. */
  restart(): Promise<void>;
  /** CPU seconds of each side since the lab began: cores that ended are included. */
  cpu(): { core: number; postgres: number; sender: number };
  /** The frames and streams that the running cores have rejected, by reason. */
  refusals(): Promise<Readonly<Record<string, number>>>;
  /** Resident memory in MB: now, and the largest of one core. */
  coreMemory(): { nowMb: number; peakMb: number };
  senderMemoryMb(): number;
}

/** Connections to PostgreSQL that a core may open. */
const connectionsOfCore = 30;

/** Open files that a core or a worker needs besides those of its connections. */
const spareFiles = 600;

/** Returns the connections that a process of this user may have. */
const connectionsOfProcess = (): number => {
  const limit = /Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  return Math.max(100, Number(limit ?? 1024) - spareFiles);
};

/**
 * Starts the cores, `cores` of them, or as many as the limit of open files demands: each host has a connection of its own. With 100,000
 * hosts and `ulimit -n` below 100,600 that is more than one.
 */
export const openFleetLab = async (options: {
  hosts: number;
  cores: number;
  intervalSeconds: number;
  /** The longest wait of a host before it connects again; that of a collector by default. */
  backoffSeconds?: number;
  hostsPerAddress: number;
  forwards: boolean;
  /** The main file of another core, to compare with. */
  program?: string;
}): Promise<FleetLab> => {
  const { hosts, intervalSeconds, backoffSeconds = 30, hostsPerAddress, forwards } = options;
  const hostsMax = connectionsOfProcess();
  const cores = Math.max(options.cores, Math.ceil(hosts / hostsMax));
  const max_connections = String(40 + connectionsOfCore * cores);
  const database = await openEmbeddedDatabase({ settings: { max_connections } });
  const authTokenSecret = systemEntropy.bytes(32).toHex();
  const files = await prepareIngestCore(database.url, {
    ...(options.program ? { program: options.program } : {}),
    env: {
      SVC_AUTH_TOKEN_SECRET: authTokenSecret,
      SVC_INGEST_REQUIRE_ENROLLMENT: "true",
      SVC_TRUST_LOOPBACK_OPS: "true",
      SVC_HEARTBEAT_INTERVAL: `${intervalSeconds}s`,
    },
  });
  let running: Awaited<ReturnType<typeof files.start>>[] = [];
  let endedSeconds = 0;
  const pids = () => running.map(({ process }) => process.pid ?? 0);
  const coreSeconds = () => pids().reduce((sum, pid) => sum + cpuSecondsOf(pid), 0);
  const start = async () => {
    while (running.length < cores) running.push(await files.start());
  };
  const kill = async () => {
    endedSeconds += coreSeconds();
    const ended = running.map(
      ({ process }) => new Promise<void>((resolve) => process.once("exit", () => resolve())),
    );
    for (const { process } of running) process.kill("SIGKILL");
    await Promise.all(ended);
    running = [];
  };
  await start();
  await seedPeople(database.db, systemClock.now());
  const api = createOperatorApi(`http://127.0.0.1:${running[0]?.port}`, authTokenSecret);
  const policy = { name: "fleet", allowed_identity_prefixes: [fleetPrefix] };
  const { token } = await createPolicyWithToken(api, policy, { max_uses: 0 });
  const fleet = {
    count: hosts,
    identityPrefix: fleetPrefix,
    ca: files.caPem,
    forwards,
    hostsPerAddress,
  };
  const times = { intervalMs: intervalSeconds * 1000, backoffCapMs: backoffSeconds * 1000 };
  const workers = await startFleetWorkers({ ...fleet, ...times }, { hostsMax });
  const ingestPorts = () => running.map(({ ingestPort }) => ingestPort);
  await workers.all("ports", ingestPorts());
  return {
    database,
    workers,
    token,
    ingestPorts,
    kill,
    caPem: files.caPem,
    api: (...call) =>
      createOperatorApi(`http://127.0.0.1:${running[0]?.port}`, authTokenSecret)(...call),
    apiPort: () => running[0]?.port ?? 0,
    cores: () => cores,
    async restart() {
      await start();
      await workers.all("ports", ingestPorts());
    },
    cpu: () => ({
      core: endedSeconds + coreSeconds(),
      postgres: cpuSecondsOf(database.pid),
      sender: workers.pids.reduce((sum, pid) => sum + cpuSecondsOf(pid), 0),
    }),
    refusals: async () =>
      sumByReason(await Promise.all(running.map(({ port }) => metricsOf(port)))),
    coreMemory: () => {
      const all = pids().map((pid) => memoryOf(pid));
      return {
        nowMb: all.reduce((sum, { nowMb }) => sum + nowMb, 0),
        peakMb: Math.max(0, ...all.map(({ peakMb }) => peakMb)),
      };
    },
    senderMemoryMb: () => workers.pids.reduce((sum, pid) => sum + memoryOf(pid).nowMb, 0),
    async [Symbol.asyncDispose]() {
      await workers.stop();
      await kill();
      await files.remove();
      await database.close();
    },
  };
};

const metricsOf = async (port: number): Promise<string> =>
  (await fetch(`http://127.0.0.1:${port}/metrics`)).text();

const sumByReason = (metrics: readonly string[]): Record<string, number> => {
  const sums: Record<string, number> = {};
  for (const [, reason = "", count] of metrics
    .join("")
    .matchAll(/^core_ingest_refused_total{reason="(\w+)"} (\d+)/gm))
    sums[reason] = (sums[reason] ?? 0) + Number(count);
  return sums;
};
