import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { WebSocket } from "ws";
import { systemEntropy } from "#kit/entropy.ts";
import { type AgentToServer, AgentToServerSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { quantile } from "#scripts/lab/quantile.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { type BenchHost, connectHosts, enrollBenchHosts } from "../host/enrolled-hosts.ts";
import { type Bench, rounded, runAll, runAtRate } from "../support/bench.ts";
import { type BenchCore, startBenchCore } from "../support/bench-core.ts";
import { judgeGoals } from "../support/goals.ts";
import type { ProbeReport } from "../support/memory-probe.ts";
import { cpuSecondsOf, memoryOf, startProcess } from "../support/processes.ts";

const echoProgram = new URL("./echo-sockets.ts", import.meta.url).pathname;
/** Messages that core accepts of an identity at once are 200. */
const roundsMax = 150;
const inFlight = 32;

/** A server of WebSockets, and the process to measure. */
interface Server {
  pid: number;
  port: number;
  /** Reads what the process reports. */
  read: ReturnType<typeof createProbeReader>;
}

/**
 * Measures the sockets of agents: core is a process of its own, and each of `--hosts` agents connects with its certificate, reports its
 * status, and sends a heartbeat in each of `--rounds` rounds. The floor is a server of the same run that echoes the same messages.
 */
export const opampBench: Bench = async (args) => {
  const { hosts: count, rounds } = readCommandOptions({ hosts: 500, rounds: 100 }, args);
  if (rounds > roundsMax) throw new Error(`core accepts at most ${roundsMax} rounds`);
  await using files = await openTemporaryFolder("bench-opamp");
  const probed = probedEnvironment(join(files.path, "memory"));
  const required = { SVC_INGEST_REQUIRE_ENROLLMENT: "true" };
  await using core = await startBenchCore({ env: { ...required, ...probed } });
  const hosts = await enrollBenchHosts(core, count);
  await core.database.sql`update collector_identity set agent = 'otelcol'`;
  const { ingest, enrollmentCa } = core.files.pki;
  const env = {
    ...probed,
    CERT_FILE: ingest.certFile,
    KEY_FILE: ingest.keyFile,
    CA_FILE: enrollmentCa.certFile,
  };
  await using echo = await startProcess([echoProgram], "ready", { ...process.env, ...env });
  const read = createProbeReader(probed);
  const echoed = { read, pid: echo.pid, port: Number(echo.records[0]?.port) };
  const served = { read, pid: core.pid, port: core.ingestPort };
  const floor = await measure(core, echoed, { hosts, rounds });
  const measured = await measure(core, served, { hosts, rounds });
  const cpu = measured.heartbeatUs / floor.heartbeatUs;
  const memory = measured.socketKib / floor.socketKib;
  const figures = { cpu_ratio: rounded(cpu, 2), memory_ratio: rounded(memory, 2) };
  return {
    figure: rounded(measured.heartbeatUs, 1),
    unit: "µs of core's CPU a heartbeat",
    floor: rounded(floor.heartbeatUs, 1),
    ratio: figures.cpu_ratio,
    ...judgeGoals("opamp", figures),
    details: { hosts: count, rounds, core: measured, echo: floor },
  };
};

/** Measures the memory of a socket after its first message, and the CPU of a heartbeat. */
const measure = async (
  { ca }: BenchCore,
  { pid, port, read }: Server,
  { hosts, rounds }: { hosts: readonly BenchHost[]; rounds: number },
) => {
  const connect = async (some: readonly BenchHost[]) => {
    const opened = await connectHosts(some, (host) => connectAgent(host, { port, ca }));
    await runAll(opened.length, inFlight, async (index) =>
      opened[index]?.send({ agentDescription: {} }),
    );
    await sleep(settleMs);
    return opened;
  };
  // The first ones take what the process has freed since it enrolled the hosts.
  const first = await connect(hosts.slice(0, hosts.length / 2));
  const before = await read(pid);
  const others = await connect(hosts.slice(first.length));
  const agents = [...first, ...others];
  const idleBefore = cpuSecondsOf(pid);
  await sleep(idleMs);
  const idle = (cpuSecondsOf(pid) - idleBefore) / idleMs;
  const { usedBytes } = await read(pid);
  const socketKib = rounded((usedBytes - before.usedBytes) / 1024 / others.length, 1);
  const cpuBefore = cpuSecondsOf(pid);
  const startedAt = performance.now();
  await runAll(agents.length * rounds, inFlight, async (index) =>
    agents[index % agents.length]?.send({}),
  );
  // What the open sockets and its jobs take alone is no heartbeat's.
  const cpu = cpuSecondsOf(pid) - cpuBefore - idle * (performance.now() - startedAt);
  const heartbeatUs = (cpu * 1e6) / (agents.length * rounds);
  // Begins the delay of the event loop anew.
  await read(pid);
  const usual = agents.length / heartbeatSeconds;
  const latencies = await runAtRate(Math.ceil(usual * usualSeconds), usual, async (index) =>
    agents[index % agents.length]?.send({}),
  );
  const { loopP99Ms, loopMaxMs } = await read(pid);
  const { peakMb } = memoryOf(pid);
  for (const { close } of agents) close();
  return {
    socketKib,
    heartbeatUs: rounded(heartbeatUs, 1),
    idlePercent: rounded(idle * 1e5, 1),
    peakMb,
    // At the rate of agents that send one every 30 s.
    usual: { p99Ms: rounded(quantile(latencies, 0.99), 1), loopP99Ms, loopMaxMs },
  };
};

/** How often an agent sends a heartbeat, and for how long they are measured at that rate. */
const heartbeatSeconds = 30;
const usualSeconds = 10;

const probe = new URL("../support/memory-probe.ts", import.meta.url);

const probedEnvironment = (file: string) => ({
  NODE_OPTIONS: `--import=${fileURLToPath(probe)}`,
  SVC_BENCH_MEMORY: file,
});

/** Creates the function that reads what the probe of a process reports. */
const createProbeReader =
  ({ SVC_BENCH_MEMORY }: ReturnType<typeof probedEnvironment>) =>
  async (pid: number): Promise<ProbeReport> => {
    const file = `${SVC_BENCH_MEMORY}.${pid}`;
    rmSync(file, { force: true });
    process.kill(pid, "SIGUSR2");
    while (!existsSync(file)) await sleep(20);
    return JSON.parse(readFileSync(file, "utf8"));
  };

/** The time in which what the connections have caused ends. */
const settleMs = 3_000;
/** For how long the open sockets are measured alone. */
const idleMs = 4_000;

const connectAgent = async (
  { certificatePem, privateKey }: BenchHost,
  { port, ca }: { port: number; ca: string },
) => {
  const instanceUid = systemEntropy.bytes(16);
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  const socket = new WebSocket(`wss://localhost:${port}/v1/opamp`, {
    ca,
    cert: certificatePem,
    key,
  });
  await once(socket, "open");
  let sequenceNum = 0n;
  return {
    /** Sends a message; resolves with its answer. */
    async send(message: Exclude<MessageInitShape<typeof AgentToServerSchema>, AgentToServer>) {
      sequenceNum += 1n;
      const sent = create(AgentToServerSchema, {
        instanceUid,
        sequenceNum,
        capabilities: 1n,
        ...message,
      });
      socket.send(Buffer.concat([Buffer.of(0), toBinary(AgentToServerSchema, sent)]));
      await once(socket, "message");
    },
    close: () => socket.terminate(),
  };
};
