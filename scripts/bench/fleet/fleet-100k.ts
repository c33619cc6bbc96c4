import { setTimeout as sleep } from "node:timers/promises";
import { createResumeTls } from "#collector/identity/resume-tls.ts";
import { revokeIdentity } from "#functions/domain/certificate/identities.ts";
import { systemClock } from "#kit/clock.ts";
import { fraction, systemEntropy } from "#kit/entropy.ts";
import { mapValues } from "#kit/map-values.ts";
import { people } from "#scripts/lab/people.ts";
import { connectHost } from "../host/connection.ts";
import { type BenchHost, enrollBenchHosts, hostTarget, pemOf } from "../host/enrolled-hosts.ts";
import { signHeartbeat, verifySignatures } from "../host/heartbeats.ts";
import { openStatusStream } from "../host/status-stream.ts";
import { connectSender, type SenderStream } from "../ingest/ingest-sender.ts";
import { type Bench, describeSamples, readBenchOptions, rounded } from "../support/bench.ts";
import { type BenchCore, startBenchCore } from "../support/bench-core.ts";
import { createCorpus, describeCorpus } from "../support/corpus/corpus.ts";
import { tableBytes, walBytes } from "../support/disk.ts";
import { judgeGoals } from "../support/goals.ts";
import { memoryOf, ownCpuSeconds, startMeter } from "../support/processes.ts";
import { FleetFigures } from "./fleet-figures.ts";
import { type FleetContext, FleetHost } from "./fleet-host.ts";

/** Attempts to connect at once: more than core lets wait, and few enough for the clients' part of them to be computed in time. */
const attemptsMax = 200;
/** Hosts that are not back by then are lost for good, as far as this bench can see. */
const backSecondsMax = 1200;
const revocationSecondsMax = 20;
const envelopesOfFrame = 200;
/** Streams that share the envelopes, on a connection of one host. */
const senderStreams = 8;

/** A fleet, and the core that it talks to. */
interface Fleet {
  core: BenchCore;
  figures: FleetFigures;
  context: FleetContext;
  hosts: readonly FleetHost[];
  /** Two hosts beside the fleet: one sends envelopes, one is revoked. */
  sender: BenchHost;
  revoked: BenchHost;
}

/**
 * Drives a fleet of real hosts, each with its key, certificate, connection and Forward stream, which carries its heartbeats, through `--minutes`
 * of heartbeats, half of them with `--envelopes` a second, renewals at the rate of a fleet within an hour and a revocation, then an outage of
 * core of `--outage` minutes and the return of all. At first `--connects` hosts connect each second, at a higher cost than later: each has its
 * certificate's first use and a new queue. `--cut network` closes the connections and leaves core running, so that hosts resume their TLS
 * sessions. Each host takes an open file of core and one of this process. The figure is core's CPU time for a heartbeat, all else included; the
 * floor is that of checking a signature.
 */
export const fleetBench: Bench = async (args) => {
  const options = readBenchOptions(args, {
    hosts: 100_000,
    minutes: 4,
    outage: 10,
    interval: 60,
    backoff: 30,
    connects: 150,
    envelopes: 20_000,
    cut: "core",
    program: "",
  });
  const { hosts, minutes, interval, envelopes } = options;
  await using resources = new AsyncDisposableStack();
  const fleet = await openFleet(options, resources);
  const reported = async <Figures extends object>(phase: string, figures: Promise<Figures>) => {
    console.error(JSON.stringify({ phase, ...(await figures) }));
    return figures;
  };
  const connected = await reported("connections", connect(fleet, options.connects, interval));
  const halfMs = minutes * 30_000;
  const steady = await reported("heartbeats", measureHeartbeats(fleet, halfMs));
  const beside = await reported("beside", measureBeside(fleet, halfMs, envelopes));
  const outage = await reported("outage", measureOutage(fleet, options));
  const { cpuUs } = await verifySignatures(3000);
  const streamsEnded = [connected, steady, beside].some(({ failures }) => failures["stream ended"]);
  return {
    figure: steady.cpu_us_each.core,
    unit: "us of core's CPU a heartbeat, with everything else (less is better)",
    floor: rounded(cpuUs),
    ratio: rounded(steady.cpu_us_each.core / cpuUs, 1),
    ...judgeGoals("fleet-100k", {
      core_percent: steady.percent.core,
      heartbeat_p99_ms: Math.max(steady.latency_ms.p99, beside.latency_ms.p99),
      ack_p99_ms: beside.ack_ms.p99,
      revoked_s: Math.max(...Object.values(beside.revocation)),
      back_s: outage.back_seconds,
      memory: outage.core_mb.peak_ratio,
      streams_ended: streamsEnded ? 1 : 0,
    }),
    details: { ...options, hosts, connected, steady, beside, outage },
  };
};

const openFleet = async (
  options: { hosts: number; interval: number; backoff: number; program: string },
  resources: AsyncDisposableStack,
): Promise<Fleet> => {
  let enrolled: BenchHost[] = [];
  const core = resources.use(
    await startBenchCore({
      program: options.program,
      env: {
        SVC_INGEST_REQUIRE_ENROLLMENT: "true",
        SVC_HEARTBEAT_INTERVAL: `${options.interval}s`,
      },
      seed: async (seeded, files) => {
        enrolled = await enrollBenchHosts(seeded, files, options.hosts + 2);
      },
    }),
  );
  const figures = new FleetFigures();
  const context: FleetContext = {
    figures,
    ca: core.ca,
    intervalMs: options.interval * 1000,
    backoffCapMs: options.backoff * 1000,
    isCut: false,
    inTurn: createTurns(attemptsMax),
  };
  const [sender, revoked, ...others] = enrolled;
  if (sender === undefined || revoked === undefined) throw new Error("no host is enrolled");
  const hosts = others.map(
    (host, index) => new FleetHost(host, hostTarget(core, host, index), context),
  );
  resources.defer(() => hosts.forEach((host) => void host.stop()));
  return { core, figures, context, hosts, sender, revoked };
};

/** Creates a function that runs tasks, at most `atOnceMax` at a time, the others in their order. */
const createTurns = (atOnceMax: number) => {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task: () => Promise<void>): Promise<void> => {
    if (running >= atOnceMax) await new Promise<void>((resolve) => waiting.push(resolve));
    running++;
    try {
      await task();
    } finally {
      running--;
      waiting.shift()?.();
    }
  };
};

const readCpu =
  ({ core }: Fleet) =>
  () => ({ ...core.cpu(), sender: ownCpuSeconds() });

/** Waits until `count` hosts are as wanted; returns the seconds that it took, at most `secondsMax`. */
const untilHosts = async (
  { hosts }: Fleet,
  isWanted: (host: FleetHost) => boolean,
  { count = hosts.length, secondsMax }: { count?: number; secondsMax: number },
): Promise<number> => {
  const startedAt = performance.now();
  const seconds = () => (performance.now() - startedAt) / 1000;
  while (hosts.filter(isWanted).length < count && seconds() < secondsMax)
    await sleep(Math.min(1000, 100 + hosts.length / 100));
  return rounded(seconds(), 1);
};

const connect = async (fleet: Fleet, perSecond: number, interval: number) => {
  const { core, hosts, figures, context } = fleet;
  const count = hosts.length;
  const meter = startMeter(readCpu(fleet));
  const before = memoryOf(core.pid).nowMb;
  const spreadMs = (count / perSecond) * 1000;
  for (const host of hosts) {
    const connectMs = spreadMs * fraction(systemEntropy);
    host.start(connectMs, connectMs + context.intervalMs * fraction(systemEntropy));
  }
  const secondsMax = count / 50 + 60;
  const seconds = await untilHosts(fleet, ({ isConnected }) => isConnected, { secondsMax });
  const used = meter();
  // The first heartbeat of a host costs as much as a hundred later ones.
  const reporting = await untilHosts(fleet, ({ acceptedAt }) => acceptedAt > 0, {
    secondsMax: 2 * interval,
  });
  const { took, failures } = figures.take();
  return {
    seconds,
    handshake_ms: describeSamples(took.connected),
    stream_opened_ms: describeSamples(took.opened),
    reported_seconds: rounded(seconds + reporting, 1),
    failures,
    core_cpu_ms_each: rounded((used.cpu.core * 1000) / count, 2),
    core_kib_each: rounded(((memoryOf(core.pid).nowMb - before) * 1024) / count, 1),
  };
};

/** Describes the heartbeats since the last call, and what they and all else cost. */
const describeHeartbeats = (
  fleet: Fleet,
  {
    cpu,
    seconds,
  }: { cpu: Record<"core" | "postgres" | "edge" | "sender", number>; seconds: number },
) => {
  const { took, failures, late } = fleet.figures.take();
  const heartbeats = took.heartbeat ?? [];
  const renewals = took.renew ?? [];
  return {
    per_second: rounded(heartbeats.length / seconds, 1),
    latency_ms: describeSamples(heartbeats),
    late_ms: describeSamples(late),
    renewals: {
      per_second: rounded(renewals.length / seconds, 1),
      latency_ms: describeSamples(renewals),
    },
    failures,
    percent: mapValues(cpu, (used) => rounded((used / seconds) * 100, 1)),
    cpu_us_each: mapValues(cpu, (used) => rounded((used / heartbeats.length) * 1e6)),
    core_mb: rounded(memoryOf(fleet.core.pid).nowMb),
  };
};

const measureHeartbeats = async (fleet: Fleet, ms: number) => {
  const { sql } = fleet.core.database;
  fleet.figures.take();
  const walBefore = await walBytes(sql);
  const meter = startMeter(readCpu(fleet));
  await sleep(ms);
  const described = describeHeartbeats(fleet, meter());
  const { count } = described.latency_ms;
  return { ...described, wal_bytes_each: rounded(((await walBytes(sql)) - walBefore) / count) };
};

/**
 * Measures heartbeats beside a steady load of envelopes and renewals, with a revocation in the middle. Throws when an acknowledged envelope
 * is not stored.
 */
const measureBeside = async (fleet: Fleet, ms: number, envelopesPerSecond: number) => {
  const { core, hosts, figures } = fleet;
  const records = await createCorpus({ mix: "mixed" });
  const { streams, close } = await openEnvelopes(fleet, records);
  figures.take();
  const acks: number[] = [];
  const meter = startMeter(readCpu(fleet));
  const framesPerSecond = envelopesPerSecond / envelopesOfFrame / streams.length;
  for (const stream of streams) stream.runAt(framesPerSecond, (latency) => acks.push(latency));
  let next = 0;
  const renewals = setInterval(
    () => void hosts[next++ % hosts.length]?.renew(),
    Math.min(1000, 3_600_000 / hosts.length),
  );
  await sleep(ms / 2);
  const [revocation] = await Promise.all([measureRevocation(fleet), sleep(ms / 2)]);
  clearInterval(renewals);
  const acknowledged = () => streams.reduce((sum, stream) => sum + stream.acknowledged(), 0);
  const used = meter();
  const during = acknowledged();
  const described = describeHeartbeats(fleet, used);
  await Promise.all(streams.map((stream) => stream.stop()));
  const sent = acknowledged();
  close();
  const [row] = await core.database.sql<
    { stored: number }[]
  >`select sum(envelopes)::int as stored from ingest_block`;
  // Each stream has one more, which moves its cursor.
  if (row?.stored !== sent + streams.length)
    throw new Error(`${sent} envelopes were acknowledged, ${row?.stored} are stored`);
  return {
    ...described,
    envelopes_per_second: rounded(during / used.seconds),
    corpus: await describeCorpus(records, "mixed"),
    ack_ms: describeSamples(acks),
    table_bytes_each: rounded((await tableBytes(core.database.sql)).envelopes / row.stored),
    revocation,
  };
};

const openEnvelopes = async (
  { core, sender: host }: Fleet,
  corpus: Awaited<ReturnType<typeof createCorpus>>,
) => {
  const { ingestPort: port, ca } = core;
  const sender = await connectSender({ port, ca, ...pemOf(host) });
  const share = corpus.length / senderStreams;
  const streams: SenderStream[] = [];
  while (streams.length < senderStreams) {
    const from = streams.length * share;
    const stream = await sender.openStream({
      hostId: host.identity,
      envelopesOfFrame,
      records: corpus.slice(from, from + share),
      framesInFlight: 1,
    });
    streams.push(stream);
  }
  return { streams, close: () => sender.close() };
};

/** Revokes a host that has a stream open, and returns after how many seconds the stream ended and a heartbeat was refused. */
const measureRevocation = async ({ core, revoked: host }: Fleet) => {
  const target = hostTarget(core, host, 0);
  const resume = createResumeTls();
  const opened = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<number>();
  const connection = await connectHost(target, resume, () => undefined);
  openStatusStream(connection, {
    identity: host.identity,
    queueId: systemEntropy.bytes(16),
    onOpened: () => opened.resolve(),
    onEnd: () => ended.resolve(performance.now()),
  });
  await opened.promise;
  const revokedAt = performance.now();
  await revokeIdentity(
    { db: core.database.db, clock: systemClock, entropy: systemEntropy },
    people.admin,
    { identityId: host.identityId, reasonCode: "host_compromised" },
    { requestId: "bench", remoteAddress: "127.0.0.1" },
  );
  const until = revokedAt + revocationSecondsMax * 1000;
  const isRefused = async () => {
    // Its connection ends with its stream or before: a new one is refused by the certificate's row.
    const again = await connectHost(target, resume, () => undefined);
    const { status, text } = await again.post("/v1/collector/heartbeat", signHeartbeat(host));
    again.close();
    return status !== 200 && text.includes("identity_revoked");
  };
  while (!(await isRefused()) && performance.now() < until) await sleep(500);
  const refusedAt = performance.now();
  const endedAt = await Promise.race([ended.promise, sleep(until - refusedAt).then(() => until)]);
  connection.close();
  const secondsOf = (at: number) => rounded((at - revokedAt) / 1000, 2);
  return {
    stream_ended_seconds: secondsOf(endedAt),
    heartbeat_refused_seconds: secondsOf(refusedAt),
  };
};

/**
 * Kills core, or cuts its network, for some minutes, and measures the return of the fleet: a host is back with its first accepted
 * heartbeat, which it sends up to an interval after it has connected.
 */
const measureOutage = async (fleet: Fleet, options: { outage: number; cut: string }) => {
  const { core, hosts, figures, context } = fleet;
  const isNetwork = options.cut === "network";
  const before = memoryOf(core.pid).nowMb;
  figures.take();
  if (isNetwork) {
    context.isCut = true;
    for (const host of hosts) host.cut();
  } else await core.kill();
  await sleep(options.outage * 60_000);
  const down = figures.take();
  const attempts = Object.values(down.failures).reduce((sum, count) => sum + count, 0);
  const meter = startMeter(readCpu(fleet));
  const startedAt = performance.now();
  context.isCut = false;
  if (!isNetwork) await core.restart();
  const isConnected = (host: FleetHost) => host.isConnected;
  const isBack = ({ acceptedAt }: FleetHost) => acceptedAt >= startedAt;
  const secondsMax = backSecondsMax;
  const [connectedMost, connected, backMost, back] = await Promise.all([
    untilHosts(fleet, isConnected, { count: hosts.length * 0.9, secondsMax }),
    untilHosts(fleet, isConnected, { secondsMax }),
    untilHosts(fleet, isBack, { count: hosts.length * 0.9, secondsMax }),
    untilHosts(fleet, isBack, { secondsMax }),
  ]);
  const used = meter();
  const { took, failures } = figures.take();
  const { peakMb } = memoryOf(core.pid);
  return {
    down_minutes: options.outage,
    attempts_while_down: attempts,
    back_seconds: back,
    back_90_percent_seconds: backMost,
    connected_seconds: connected,
    connected_90_percent_seconds: connectedMost,
    full_handshakes: describeSamples(took.connected),
    resumed_handshakes: describeSamples(took.resumed),
    heartbeats: describeSamples(took.heartbeat),
    failures,
    core_cpu_ms_each: rounded((used.cpu.core / hosts.length) * 1000, 2),
    core_mb: {
      before: rounded(before),
      peak: rounded(peakMb),
      peak_ratio: rounded(peakMb / before, 2),
    },
  };
};
