import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { WebSocket } from "ws";
import { systemEntropy } from "#kit/entropy.ts";
import { type AgentToServer, AgentToServerSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { type BenchHost, connectHosts, enrollBenchHosts } from "../host/enrolled-hosts.ts";
import { type Bench, rounded, runAll } from "../support/bench.ts";
import { type BenchCore, startBenchCore } from "../support/bench-core.ts";
import { judgeGoals } from "../support/goals.ts";
import { cpuSecondsOf, memoryOf, startProcess } from "../support/processes.ts";

const echoProgram = new URL("./echo-sockets.ts", import.meta.url).pathname;
/** Messages that core accepts of an identity at once are 200. */
const roundsMax = 150;
const inFlight = 32;

/** A server of WebSockets, and the process to measure. */
interface Server {
  pid: number;
  port: number;
}

/**
 * Measures the sockets of agents: core is a process of its own, and each of `--hosts` agents connects with its certificate, reports its
 * status, and sends a heartbeat in each of `--rounds` rounds. The floor is a server of the same run that echoes the same messages.
 */
export const opampBench: Bench = async (args) => {
  const { hosts: count, rounds } = readCommandOptions({ hosts: 500, rounds: 100 }, args);
  if (rounds > roundsMax) throw new Error(`core accepts at most ${roundsMax} rounds`);
  await using core = await startBenchCore({ env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" } });
  const hosts = await enrollBenchHosts(core, count);
  await core.database.sql`update collector_identity set agent = 'otelcol'`;
  const { ingest, enrollmentCa } = core.files.pki;
  const env = {
    CERT_FILE: ingest.certFile,
    KEY_FILE: ingest.keyFile,
    CA_FILE: enrollmentCa.certFile,
  };
  await using echo = await startProcess([echoProgram], "ready", { ...process.env, ...env });
  const echoed = { pid: echo.pid, port: Number(echo.records[0]?.port) };
  const floor = await measure(core, echoed, { hosts, rounds });
  const measured = await measure(core, { pid: core.pid, port: core.ingestPort }, { hosts, rounds });
  const cpu = measured.heartbeatUs / floor.heartbeatUs;
  const memory = measured.socketKib / floor.socketKib;
  const figures = { cpu_ratio: rounded(cpu, 2), memory_ratio: rounded(memory, 2) };
  const { ok, goal, goals } = judgeGoals("opamp", figures);
  return {
    figure: rounded(measured.heartbeatUs, 1),
    unit: "µs of core's CPU a heartbeat",
    floor: rounded(floor.heartbeatUs, 1),
    ratio: figures.cpu_ratio,
    goal,
    ok,
    goals,
    details: { hosts: count, rounds, core: measured, echo: floor },
  };
};

/** Measures the memory of a socket after its first message, and the CPU of a heartbeat. */
const measure = async (
  { ca }: BenchCore,
  { pid, port }: Server,
  { hosts, rounds }: { hosts: readonly BenchHost[]; rounds: number },
) => {
  const before = memoryOf(pid).nowMb;
  const agents = await connectHosts(hosts, (host) => connectAgent(host, { port, ca }));
  await runAll(agents.length, inFlight, async (index) =>
    agents[index]?.send({ agentDescription: {} }),
  );
  await sleep(settleMs);
  const idleBefore = cpuSecondsOf(pid);
  await sleep(idleMs);
  const idle = (cpuSecondsOf(pid) - idleBefore) / idleMs;
  const socketKib = rounded(((memoryOf(pid).nowMb - before) * 1024) / agents.length, 1);
  const cpuBefore = cpuSecondsOf(pid);
  const startedAt = performance.now();
  await runAll(agents.length * rounds, inFlight, async (index) =>
    agents[index % agents.length]?.send({}),
  );
  // What the open sockets and its jobs take alone is no heartbeat's.
  const cpu = cpuSecondsOf(pid) - cpuBefore - idle * (performance.now() - startedAt);
  const heartbeatUs = (cpu * 1e6) / (agents.length * rounds);
  for (const { close } of agents) close();
  return { socketKib, heartbeatUs: rounded(heartbeatUs, 1), idlePercent: rounded(idle * 1e5, 1) };
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
