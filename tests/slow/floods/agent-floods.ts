/** Attacks the sockets of agents of a real core, one attack after another, each on a new core, beside a collector and agents that behave. */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { create, toBinary } from "@bufbuild/protobuf";
import { WebSocket } from "ws";
import { systemEntropy } from "#kit/entropy.ts";
import { AgentToServerSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { type BenchHost, enrollBenchHosts } from "#scripts/bench/host/enrolled-hosts.ts";
import { cpuSecondsOf, memoryOf } from "#scripts/bench/support/processes.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { frame, newQueue } from "#tests/support/frames.ts";
import { connectForeign, submit } from "#tests/support/grpc-client.ts";
import { programFile } from "#tests/support/program.ts";
import { agentAttacks } from "./agent-attacks.ts";
import { p99Of } from "./floods.ts";

const worker = new URL("./attacker.ts", import.meta.url);
const peakMbMax = 350;
const delayMsMax = 250;
/** Hosts of each part. A heartbeat of each twice a second is within what an agent may send. */
const counts = { behaving: 8, attacking: 8 };
const heartbeatMs = 500;
/** A heartbeat without an answer for so long is a fault. */
const answerMs = 5_000;

/** The result of one attack. */
export interface AgentFloodResult {
  /** The sockets and requests that it opened. */
  opened: number;
  /** How often core named each error to it. */
  errors: Readonly<Record<string, number>>;
  peak_mb: number;
  /** The time from a collector's frame to its ack. */
  ack_p99_ms: number;
  /** The time from another agent's heartbeat to its answer. */
  heartbeat_p99_ms: number;
  core_cpu_percent: number;
  /** The frames and heartbeats that were answered, and those that were not. */
  frames: number;
  heartbeats: number;
  faults: number;
  /** Whether memory, both p99 and faults meet their goals, core still runs, and has named the error. */
  ok: boolean;
}

/** Runs attacks of so many seconds each, all of them or those named, after a time without one. */
export const runAgentFloods = async ({
  seconds,
  names = Object.keys(agentAttacks),
  warmUpMs = 2_000,
}: {
  seconds: number;
  names?: readonly string[];
  warmUpMs?: number;
}) => {
  await using database = await openEmbeddedDatabase();
  const core = await prepareIngestCore(database.url, {
    program: programFile("functions/main.ts"),
    env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" },
  });
  const results: Record<string, AgentFloodResult> = {};
  let hosts: BenchHost[] | undefined;
  for (const name of ["alone", ...names]) {
    const { port, ingestPort, process: child } = await core.start();
    hosts ??= await enrollHosts({ database, httpPort: port });
    const [collector, revoked, ...agents] = hosts;
    if (collector === undefined || revoked === undefined) throw new Error("no hosts");
    const to = { port: ingestPort, caPem: core.caPem };
    const behaving = agents.slice(0, counts.behaving);
    const behaved = await connectBehaved(to, { collector, agents: behaving });
    // Code that has not run yet is slow, whoever calls it.
    await behaved.behave(warmUpMs, () => false);
    const pid = child.pid ?? 0;
    const cpuBefore = cpuSecondsOf(pid);
    const begun = performance.now();
    const pairs = agents.slice(counts.behaving).map(pairOf);
    const attack = attackWith(name, seconds, { ...to, agents: pairs, revoked: pairOf(revoked) });
    const seen = await behaved.behave(seconds * 1_000, () => attack.isRunning);
    const cpu = cpuSecondsOf(pid) - cpuBefore;
    const { opened, errors } = await attack.ended;
    const { peakMb } = memoryOf(pid);
    const figures = {
      opened,
      errors,
      peak_mb: peakMb,
      ack_p99_ms: p99Of(seen.acks),
      heartbeat_p99_ms: p99Of(seen.heartbeats),
      core_cpu_percent: Math.round((cpu * 1e5) / (performance.now() - begun)),
      frames: seen.acks.length,
      heartbeats: seen.heartbeats.length,
      faults: seen.faults.length,
    };
    const ok = child.exitCode === null && meetsGoals(name, figures, results.alone);
    results[name] = { ...figures, ok };
    process.stderr.write(`${name}: ${JSON.stringify(results[name])} ${seen.faults[0] ?? ""}\n`);
    behaved.close();
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
  await core.remove();
  return { ok: Object.values(results).every(({ ok }) => ok), seconds, results };
};

const pairOf = ({ certificatePem: cert, keyPem: key }: BenchHost) => ({ cert, key });

/** Enrolls a collector, an agent that is revoked, and the other agents. */
const enrollHosts = async (core: Parameters<typeof enrollBenchHosts>[0]) => {
  const hosts = await enrollBenchHosts(core, 2 + counts.behaving + counts.attacking);
  const { sql } = core.database;
  const [collector, revoked] = hosts;
  await sql`update collector_identity set agent = 'otelcol' where id != ${collector?.identityId ?? ""}`;
  await sql`update collector_identity set revoked_at = now() where id = ${revoked?.identityId ?? ""}`;
  return hosts;
};

/** Runs an attack in a thread of its own; `alone` is none. */
const attackWith = (name: string, seconds: number, target: object) => {
  const none = { opened: 0, errors: {} as Record<string, number> };
  if (name === "alone") return { isRunning: false, ended: Promise.resolve(none) };
  const thread = new Worker(worker, { workerData: { name, seconds, ...target } });
  const attack = {
    isRunning: true,
    ended: once(thread, "message").then(([result]) => {
      attack.isRunning = false;
      return result as typeof none;
    }),
  };
  return attack;
};

/** Connects clients that behave: a collector that commits a frame every 10 ms, and agents that send heartbeats. */
const connectBehaved = async (
  to: { port: number; caPem: string },
  { collector, agents }: { collector: BenchHost; agents: readonly BenchHost[] },
) => {
  const client = connectForeign(to, { ...pairOf(collector), der: new Uint8Array() });
  const queue = newQueue();
  let sequence = 0;
  const forward = async () => {
    const { error } = await submit(client, frame(queue, ++sequence, sequence, collector.identity));
    if (error !== undefined) throw new Error(JSON.stringify(error));
  };
  const sockets = await Promise.all(agents.map((agent) => connectAgent(to, agent)));
  return {
    /** Sends for a time, and as long as `isAttacked`. Returns the milliseconds until each answer, and what was not answered. */
    async behave(ms: number, isAttacked: () => boolean) {
      const until = Date.now() + ms;
      const seen = { acks: [] as number[], heartbeats: [] as number[], faults: [] as string[] };
      const repeat = async (durations: number[], pauseMs: number, send: () => Promise<void>) => {
        while (Date.now() < until || isAttacked()) {
          const startedAt = performance.now();
          await send().then(
            () => durations.push(performance.now() - startedAt),
            (error) => seen.faults.push(String(error)),
          );
          await sleep(pauseMs);
        }
      };
      const beats = sockets.map(({ beat }) => repeat(seen.heartbeats, heartbeatMs, beat));
      await Promise.all([repeat(seen.acks, 10, forward), ...beats]);
      return seen;
    },
    close() {
      client.close();
      for (const { socket } of sockets) socket.terminate();
    },
  };
};

const connectAgent = async (to: { port: number; caPem: string }, agent: BenchHost) => {
  const address = `wss://localhost:${to.port}/v1/opamp`;
  const socket = new WebSocket(address, { ...pairOf(agent), ca: to.caPem });
  await once(socket, "open");
  const instanceUid = systemEntropy.bytes(16);
  let sequenceNum = 0n;
  const send = async (parts: object) => {
    sequenceNum += 1n;
    const sent = { instanceUid, sequenceNum, capabilities: 1n, ...parts };
    const bytes = toBinary(AgentToServerSchema, create(AgentToServerSchema, sent));
    socket.send(Buffer.concat([Buffer.of(0), bytes]));
    await once(socket, "message", { signal: AbortSignal.timeout(answerMs) });
  };
  await send({ agentDescription: {} });
  return { socket, beat: () => send({}) };
};

const meetsGoals = (
  name: string,
  figures: Omit<AgentFloodResult, "ok">,
  alone: Omit<AgentFloodResult, "ok"> = figures,
) => {
  const { error } = agentAttacks[name] ?? {};
  return (
    figures.faults === 0 &&
    figures.peak_mb <= peakMbMax &&
    (["ack_p99_ms", "heartbeat_p99_ms"] as const).every(
      (each) => figures[each] <= Math.max(2 * alone[each], delayMsMax),
    ) &&
    (error === undefined || Object.keys(figures.errors).some((each) => error.test(each)))
  );
};
