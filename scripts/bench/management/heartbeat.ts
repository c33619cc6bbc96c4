import { hash, sign, verify } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Status } from "../../../collector/forward/messages.ts";
import { createResumeTls, type ResumeTls } from "../../../collector/identity/resume-tls.ts";
import { systemClock } from "../../../kit/clock.ts";
import { mapValues } from "../../../kit/map-values.ts";
import { canonicalBody, proofPayload } from "../../../proto/management/proof.ts";
import { heartbeatBody } from "../../lab/heartbeat-body.ts";
import { quantile } from "../../lab/quantile.ts";
import { connectHost, type HostConnection, type HostTarget } from "../host/connection.ts";
import { connectStatuses, type StatusSender } from "../host/status-stream.ts";
import { type Bench, readBenchOptions, rounded, runAll, runAtRate } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import { walBytes } from "../support/disk.ts";
import { benchGoals, judgeGoals } from "../support/goals.ts";
import { connectHttps } from "../support/https-sender.ts";
import { measureHere, ownCpuSeconds, startMeter } from "../support/processes.ts";
import { type BenchHost, connectHosts, enrollBenchHosts } from "./enrolled-hosts.ts";

/** Core accepts six heartbeats a minute of a host, and the warm-up is one of them. */
const roundsMax = 5;
/** Three minutes of them. */
const steadyRounds = 15;
/** For how long the open streams are measured alone. */
const idleMs = 30_000;

/** A heartbeat, ready to send. */
export interface SignedHeartbeat {
  host: BenchHost;
  data: Buffer;
  signature: Buffer;
  body: string;
}

/**
 * Measures signed, stored heartbeats through the ingest listener: core is a process of its own on a durable PostgreSQL, and each of
 * `--hosts` collectors has a TLS connection of its own, with its certificate. They report once a round, `--in-flight` at a time, for
 * `--rounds` rounds, after one to warm up. The floor is how many of the same signatures one core verifies, measured between the rounds.
 * Each connection is HTTP/2, as that of a collector's forwarder, which carries its heartbeats too. With `--connections resumed` each
 * heartbeat has a connection of its own that resumes the TLS session of the one before, as without a forwarder; `new` makes a full
 * handshake each time; `http1` keeps a connection of HTTP/1.1, as a proxy does. With `stream` each host has its stream open, and the rounds
 * after the first are statuses without a report, at a steady `--rate`: five a minute of each host by default. What the same core takes for
 * the open streams alone is measured before, and does not count. `--rate` starts so many a second otherwise too, as a fleet does. `--program`
 * is the main file of another core, to compare with.
 */
export const heartbeatBench: Bench = async (args) => {
  const options = readBenchOptions(args, {
    hosts: 3000,
    rounds: 0,
    "in-flight": 512,
    rate: 0,
    connections: "shared",
    program: "",
  });
  const { hosts: count, "in-flight": inFlight, connections, program } = options;
  const isSteady = connections === "stream";
  const rate = options.rate || (isSteady ? count / 12 : 0);
  const rounds = options.rounds || (isSteady ? steadyRounds : roundsMax);
  if (rounds > roundsMax && !isSteady)
    throw new Error(`core accepts at most ${roundsMax} rounds: use more hosts`);
  let hosts: BenchHost[] = [];
  await using core = await startBenchCore({
    env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" },
    program,
    seed: async (seeded, files) => {
      hosts = await enrollBenchHosts(seeded, files, count);
    },
  });
  const { database } = core;
  let senders: HostSender[] = [];
  let streams: StatusSender[] = [];
  /** The first status of each host carries its report. */
  const reports = new Set<BenchHost>(hosts);
  const statusOf = (heartbeat: SignedHeartbeat | undefined): Status => {
    if (heartbeat === undefined) throw new Error("a host is missing");
    const { host, body } = heartbeat;
    const queue = {
      records: 3,
      bytes: 4096,
      oldestRecordAgeSeconds: 1,
      droppedRecordsTotal: 0,
      deadLetters: 0,
    };
    const report = reports.has(host) ? Buffer.from(body) : new Uint8Array();
    return {
      digest: Buffer.alloc(32, 1),
      queue,
      lastAckAgeSeconds: 1,
      usage: { rss_bytes: 8e7, cpu_ms: 5 },
      report,
    };
  };
  const sendAll = (
    heartbeats: readonly SignedHeartbeat[],
    perSecond: number,
  ): Promise<Float64Array> => {
    const sendOnStream = async (index: number) => {
      const { refused, reportNeeded } =
        (await streams[index]?.send(statusOf(heartbeats[index]))) ?? {};
      if (refused !== "" || reportNeeded)
        throw new Error(`status rejected: ${refused}, ${reportNeeded}`);
    };
    const sendRequest = async (index: number) => {
      await postHeartbeat(senders[index], heartbeats[index]);
    };
    const [send, atOnce] = isSteady ? [sendOnStream, count] : [sendRequest, inFlight];
    return perSecond > 0
      ? runAtRate(heartbeats.length, perSecond, send)
      : runAll(heartbeats.length, atOnce, send);
  };
  const readCpu = () => ({ ...core.cpu(), sender: ownCpuSeconds() });
  /** CPU a second while no status is sent. */
  const idleUse = async () => {
    const meter = startMeter(readCpu);
    await sleep(idleMs);
    const { cpu, seconds } = meter();
    return mapValues(cpu, (used) => used / seconds);
  };
  try {
    if (isSteady)
      streams = await connectHosts(core, hosts, (target, { identity }) =>
        connectStatuses(target, identity),
      );
    else senders = await connectHosts(core, hosts, senderKinds[connections] ?? connectKept);
    await sendAll(
      hosts.map((host) => signHeartbeat(host, systemClock.now())),
      0,
    );
    reports.clear();
    // Left for later, what the reports cause is counted among the idle use: a status once seemed to take PostgreSQL a quarter of the truth.
    await database.sql`vacuum analyze`;
    const logStart = await walBytes(database.sql);
    const idle = isSteady ? await idleUse() : { core: 0, postgres: 0, sender: 0 };
    const floorRates: number[] = [];
    const cpu = { core: 0, postgres: 0, sender: 0 };
    const latencies = new Float64Array(count * rounds);
    let seconds = 0;
    let roundStartedAt = 0;
    for (let round = 0; round < rounds; round++) {
      roundStartedAt = systemClock.now();
      const heartbeats = hosts.map((host) => signHeartbeat(host, systemClock.now()));
      const meter = startMeter(readCpu);
      latencies.set(await sendAll(heartbeats, rate), round * count);
      const used = meter();
      seconds += used.seconds;
      for (const part of ["core", "postgres", "sender"] as const)
        cpu[part] += used.cpu[part] - idle[part] * used.seconds;
      // Between the rounds, so that the same neighbours slow both figures.
      floorRates.push((await verifyAll(heartbeats.slice(0, 3000))).perSecond);
    }
    const logBytes = (await walBytes(database.sql)) - logStart;
    const written = await database.sql`select count(*)::int as rows from fleet_status
      where last_heartbeat_at >= ${new Date(roundStartedAt).toISOString()}::timestamptz`;
    if (written[0]?.rows !== count) throw new Error("the last round is not in the database");
    const microsecondsEach = (cpuSeconds: number) => rounded((cpuSeconds / count / rounds) * 1e6);
    const floor = floorRates.reduce((sum, rate) => sum + rate, 0) / rounds;
    const perSecond = (count * rounds) / seconds;
    const coreMb = core.peakMb();
    const cpuUs = microsecondsEach(cpu.core + cpu.postgres);
    // At a given rate the machine is idle in between.
    const ratio = rate > 0 ? null : rounded(perSecond / floor, 3);
    const p99 = rounded(quantile(latencies, 0.99));
    const log = rounded(logBytes / count / rounds);
    const judged = isSteady
      ? judgeGoals("heartbeat --connections stream", {
          cpu_us: cpuUs,
          log_bytes: log,
          core_mb: coreMb,
        })
      : judgeGoals("heartbeat", { cpu_us: cpuUs, ratio, p99_ms: p99, core_mb: coreMb });
    return {
      figure: rounded(perSecond),
      unit: "heartbeats/s",
      floor: rounded(floor),
      ratio: rounded(perSecond / floor, 3),
      ...judged,
      goal: benchGoals.heartbeat.ratio.value,
      details: {
        hosts: count,
        rounds,
        ...(rate > 0 ? { rate } : { in_flight: inFlight }),
        connections,
        seconds: rounded(seconds, 2),
        cpu_us_each: mapValues(cpu, microsecondsEach),
        idle_percent: {
          core: rounded(idle.core * 100, 1),
          postgres: rounded(idle.postgres * 100, 1),
        },
        latency_ms: { p50: rounded(quantile(latencies, 0.5)), p99 },
        core_peak_rss_mb: coreMb,
        log_bytes_each: log,
        floor: "P-256 verifications of the same signatures by node:crypto on one core",
      },
    };
  } finally {
    for (const sender of [...senders, ...streams]) sender?.close();
  }
};

type HostSender = Pick<HostConnection, "post" | "close">;

/** Connects as a collector whose forwarder is connected: each request is a stream of one HTTP/2 connection. */
const connectKept = (target: HostTarget): Promise<HostSender> =>
  connectHost(target, createResumeTls(), () => undefined);

/** Sends as a collector without a forwarder: each request has a connection of its own, which may resume the TLS session of the one before. */
const sendSingly = (target: HostTarget, resumes: boolean): HostSender => {
  const resume = resumes ? createResumeTls() : (connect: Parameters<ResumeTls>[0]) => connect({});
  return {
    post: async (path, body) => {
      const connection = await connectHost(target, resume, () => undefined);
      try {
        return await connection.post(path, body);
      } finally {
        connection.close();
      }
    },
    close: () => undefined,
  };
};

const senderKinds: Readonly<Record<string, (target: HostTarget) => Promise<HostSender>>> = {
  http1: connectHttps,
  resumed: async (target) => sendSingly(target, true),
  new: async (target) => sendSingly(target, false),
};

/** Signs the heartbeat of a healthy collector at `sentAt`. */
export const signHeartbeat = (host: BenchHost, sentAt: number): SignedHeartbeat => {
  const body = heartbeatBody(sentAt);
  const { identity, certificateSha256 } = host;
  const payload = proofPayload({
    purpose: "heartbeat",
    identity,
    certificateSha256,
    sentAt: String(body.sent_at),
    bodySha256: hash("sha256", canonicalBody(body), "hex"),
  });
  const data = Buffer.from(payload);
  const signature = sign("sha256", data, host.privateKey);
  return {
    host,
    data,
    signature,
    body: JSON.stringify({ ...body, proof: signature.toString("base64") }),
  };
};

/** Sends a heartbeat; throws unless core accepts it. */
export const postHeartbeat = async (
  sender?: HostSender,
  heartbeat?: SignedHeartbeat,
): Promise<void> => {
  if (heartbeat === undefined || sender === undefined) throw new Error("a host is missing");
  const { status, text } = await sender.post("/v1/collector/heartbeat", heartbeat.body);
  if (status !== 200) throw new Error(`heartbeat rejected: ${text}`);
};

/** Verifies the signatures on this core; returns the rate, and the microseconds of CPU of each. */
export const verifyAll = async (heartbeats: readonly SignedHeartbeat[]) => {
  const { seconds, cpuSeconds } = await measureHere(() => {
    for (const { data, signature, host } of heartbeats)
      if (!verify("sha256", data, host.publicKey, signature))
        throw new Error("a signature of ours does not verify");
  });
  return { perSecond: heartbeats.length / seconds, cpuUs: (cpuSeconds * 1e6) / heartbeats.length };
};
