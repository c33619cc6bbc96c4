import { generateKeyPairSync, sign, verify } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { mapValues } from "../../../kit/map-values.ts";
import { type Bench, readBenchOptions, rounded } from "../support/bench.ts";
import { tableBytes, walBytes } from "../support/disk.ts";
import { measureHere, startMeter } from "../support/processes.ts";
import { measureBeside } from "./beside.ts";
import { mergeFigures } from "./figures.ts";
import { type FleetLab, openFleetLab } from "./lab.ts";
import { measureOutage } from "./outage.ts";
import { describeSamples, untilAll } from "./phases.ts";

/**
 * Goals of a fleet of 100,000 at 60 s. A heartbeat may take 100 ms; one on a stream also waits for up to a second, since core writes all that
 * came in a second at once.
 */
const goals = {
  heartbeatP99Ms: 100,
  corePercent: 60,
  ackP99Ms: 150,
  backSeconds: 600,
  revokedSeconds: 5,
  memory: 1.5,
};
const groupMs = 1000;

/**
 * Drives a fleet of real hosts, each with its key, certificate and connection, through enrollment, heartbeats, the same with
 * `--envelopes` a second, renewals at the rate of a fleet within an hour and a revocation, then an outage of core of `--outage` minutes
 * and the return of all. `--minutes` are of heartbeats, half of them with the other loads. At first `--connects` hosts connect each second,
 * at a higher cost than later: each has its certificate's first use and a new queue. Hosts hold a Forward stream, which carries their
 * heartbeats, unless `--streams 0`.
 * `--cut network` closes the connections and leaves core running, so that hosts resume their TLS sessions. The figure is core's CPU time
 * for a heartbeat, all else included; the floor is that of checking its signature.
 */
export const fleetBench: Bench = async (args) => {
  const options = readBenchOptions(args, {
    hosts: 100_000,
    cores: 1,
    minutes: 4,
    outage: 10,
    interval: 60,
    backoff: 30,
    connects: 150,
    envelopes: 20_000,
    streams: 1,
    "per-address": 50,
    cut: "core",
    program: "",
  });
  const { hosts, minutes, interval } = options;
  await using lab = await openFleetLab({
    hosts,
    cores: options.cores,
    intervalSeconds: interval,
    backoffSeconds: options.backoff,
    hostsPerAddress: options["per-address"],
    forwards: options.streams !== 0,
    program: options.program,
  });
  const report = (phase: string, figures: object) =>
    process.stderr.write(`${JSON.stringify({ phase, cores: lab.cores(), ...figures })}\n`);

  const enrollment = await enroll(lab, hosts);
  report("enrollment", enrollment);
  const connected = await connect(lab, { hosts, perSecond: options.connects, interval });
  report("connections", connected);
  const halfMs = minutes * 30_000;
  const steady = await measureHeartbeats(lab, halfMs);
  report("heartbeats", steady);
  const beside = await measureBeside(lab, {
    ms: halfMs,
    envelopesPerSecond: options.envelopes,
    renewalsPerSecond: Math.max(1, hosts / 3600),
  });
  report("beside", beside);
  const outage = await measureOutage(lab, {
    hosts,
    minutes: options.outage,
    isNetwork: options.cut === "network",
  });
  report("outage", outage);

  const floor = await verifyMicroseconds();
  const figure = steady.cpu_us_each.core;
  const heartbeatP99Ms = goals.heartbeatP99Ms + (options.streams === 0 ? 0 : groupMs);
  return {
    figure,
    unit: "us of core's CPU a heartbeat, with everything else (less is better)",
    floor: rounded(floor),
    ratio: rounded(figure / floor, 1),
    goal: goals.corePercent,
    ok:
      enrollment.failed === 0 &&
      [connected, steady, beside].every(({ failures }) => failures["stream ended"] === undefined) &&
      steady.latency_ms.p99 < heartbeatP99Ms &&
      beside.heartbeats.latency_ms.p99 < heartbeatP99Ms &&
      steady.percent.core < goals.corePercent &&
      beside.ack_ms.p99 < goals.ackP99Ms &&
      Math.max(
        beside.revocation.stream_ended_seconds,
        beside.revocation.heartbeat_refused_seconds,
      ) < goals.revokedSeconds &&
      outage.all_back &&
      outage.back_seconds < goals.backSeconds &&
      outage.core_mb.peak_ratio < goals.memory,
    details: {
      ...options,
      cores: lab.cores(),
      goals,
      enrollment,
      connected,
      steady,
      beside,
      outage,
    },
  };
};

const enrollingAtOnce = 64;

const enroll = async ({ workers, database, apiPort, token }: FleetLab, hosts: number) => {
  const before = await tableBytes(database.sql);
  const startedAt = performance.now();
  const inFlight = Math.max(1, Math.floor(enrollingAtOnce / workers.pids.length));
  await workers.all("enroll", { apiPort: apiPort(), token, inFlight });
  const seconds = (performance.now() - startedAt) / 1000;
  const { figures } = await workers.take();
  const enrolled = figures.took.enroll ?? new Float64Array();
  return {
    hosts: enrolled.length,
    failed: hosts - enrolled.length,
    seconds: rounded(seconds, 1),
    per_second: rounded(enrolled.length / seconds),
    latency_ms: describeSamples(enrolled),
    database_kib_each: rounded(
      ((await tableBytes(database.sql)).fleet - before.fleet) / hosts / 1024,
      1,
    ),
  };
};

const connect = async (
  lab: FleetLab,
  { hosts, perSecond, interval }: { hosts: number; perSecond: number; interval: number },
) => {
  const meter = startMeter(lab.cpu);
  const before = lab.coreMemory().nowMb;
  const senderBefore = lab.senderMemoryMb();
  await lab.workers.all("start", { spreadMs: (hosts / perSecond) * 1000 });
  const { figures, seconds } = await untilAll(lab, "connected", {
    hosts,
    secondsMax: hosts / 50 + 60,
  });
  const used = meter();
  // The first heartbeat of a host costs as much as a hundred later ones.
  const reporting = await untilAll(lab, "accepted", { hosts, secondsMax: 2 * interval });
  const { failures } = mergeFigures([figures, reporting.figures]);
  const kib = (mb: number) => rounded((mb * 1024) / hosts, 1);
  return {
    seconds: rounded(seconds, 1),
    handshake_ms: describeSamples(figures.took.connected),
    stream_opened_ms: describeSamples(figures.took.opened),
    reported_seconds: rounded(seconds + reporting.seconds, 1),
    failures,
    refused: await lab.refusals(),
    core_cpu_ms_each: rounded((used.cpu.core * 1000) / hosts, 2),
    core_kib_each: kib(lab.coreMemory().nowMb - before),
    sender_kib_each: kib(lab.senderMemoryMb() - senderBefore),
  };
};

const measureHeartbeats = async (lab: FleetLab, ms: number) => {
  await lab.workers.take();
  const walBefore = await walBytes(lab.database.sql);
  const meter = startMeter(lab.cpu);
  await sleep(ms);
  const { figures } = await lab.workers.take();
  const { seconds, cpu } = meter();
  const accepted = figures.took.heartbeat ?? new Float64Array();
  const microseconds = (used: number) => rounded((used / accepted.length) * 1e6);
  const percent = (used: number) => rounded((used / seconds) * 100, 1);
  return {
    per_second: rounded(accepted.length / seconds, 1),
    latency_ms: describeSamples(accepted),
    late_ms: describeSamples(figures.late),
    failures: figures.failures,
    percent: mapValues(cpu, percent),
    cpu_us_each: mapValues(cpu, microseconds),
    wal_bytes_each: rounded(((await walBytes(lab.database.sql)) - walBefore) / accepted.length),
    core_mb: rounded(lab.coreMemory().nowMb),
    sender_mb: rounded(lab.senderMemoryMb()),
  };
};

const verifyMicroseconds = async (): Promise<number> => {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const data = Buffer.alloc(300, 1);
  const signature = sign("sha256", data, privateKey);
  const count = 3000;
  const { cpuSeconds } = await measureHere(() => {
    for (let index = 0; index < count; index++) verify("sha256", data, publicKey, signature);
  });
  return (cpuSeconds * 1e6) / count;
};
