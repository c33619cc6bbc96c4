import { setTimeout as sleep } from "node:timers/promises";
import { mapValues } from "#kit/map-values.ts";
import { describeSamples } from "#scripts/lab/quantile.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { type BenchHost, connectHosts, enrollBenchHosts } from "../host/enrolled-hosts.ts";
import {
  connectHeartbeats,
  type HeartbeatSender,
  signHeartbeat,
  verifySignatures,
} from "../host/heartbeats.ts";
import { measureDatabaseUse } from "../ingest/database-use.ts";
import { type Bench, rounded, runAll, runAtRate } from "../support/bench.ts";
import { type BenchCore, startBenchCore } from "../support/bench-core.ts";
import { benchGoals, judgeGoals } from "../support/goals.ts";
import { memoryOf, ownCpuSeconds, startMeter } from "../support/processes.ts";

/** Core accepts six heartbeats a minute of a host, and the warm-up is one of them. */
const roundsMax = 5;
/** Three minutes of them. */
const steadyRounds = 15;
/** For how long the open streams are measured alone. */
const idleMs = 30_000;
const noUse = { core: 0, postgres: 0, sender: 0 };

/**
 * Measures signed, stored heartbeats through the ingest listener: core is a process of its own on a durable PostgreSQL, and each of
 * `--hosts` collectors has a TLS connection of its own, with its certificate. They report once a round, `--in-flight` at a time, for
 * `--rounds` rounds, after one to warm up. The floor is how many signatures one core verifies, measured between the rounds.
 * Each connection is HTTP/2 with an open stream, as that of a collector's forwarder. With `--connections http1` it is one of HTTP/1.1, as
 * that of a proxy. With `stream` the rounds after the first are statuses on the stream without a report, at a steady `--rate`: five a
 * minute of each host by default. What the same core takes for the open streams alone is measured before, and does not count. `--rate`
 * starts so many a second otherwise too, as a fleet does. `--program` is the main file of another core, to compare with.
 */
export const heartbeatBench: Bench = async (args) => {
  const load = readLoad(args);
  await using core = await startBenchCore({
    env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" },
    program: load.program,
  });
  const hosts = await enrollBenchHosts(core, load.hosts);
  const memoryBefore = memoryOf(core.pid).nowMb;
  const senders = await connectHosts(hosts, (host) =>
    connectHeartbeats(core, host, load.connections),
  );
  try {
    const kibEach = ((memoryOf(core.pid).nowMb - memoryBefore) * 1024) / load.hosts;
    await sendAll(senders, signAll(hosts), { ...load, rate: 0 });
    // Left for later, what the reports cause is counted among the idle use: a status once seemed to take PostgreSQL a quarter of the truth.
    await core.database.sql`vacuum analyze`;
    const use = await measureDatabaseUse(core.database, "fleet_status");
    const idle = load.isSteady ? await idleUse(core) : noUse;
    const measured = await measureRounds(core, { senders, hosts, load, idle });
    const { wal_bytes: log } = await use(load.hosts * load.rounds);
    return describeRounds(load, { ...measured, idle, log, kibEach, coreMb: core.peakMb() });
  } finally {
    for (const { close } of senders) close();
  }
};

const readLoad = (args: readonly string[]) => {
  const options = readCommandOptions(
    {
      hosts: 3000,
      rounds: 0,
      "in-flight": 512,
      rate: 0,
      connections: "shared",
      program: "",
    },
    args,
  );
  const { hosts, "in-flight": inFlight, connections, program } = options;
  const isSteady = connections === "stream";
  const rounds = options.rounds || (isSteady ? steadyRounds : roundsMax);
  if (rounds > roundsMax && !isSteady)
    throw new Error(`core accepts at most ${roundsMax} rounds: use more hosts`);
  const rate = options.rate || (isSteady ? hosts / 12 : 0);
  return { hosts, rounds, rate, connections, isSteady, inFlight, program };
};

type Load = ReturnType<typeof readLoad>;

const readCpu = (core: BenchCore) => () => ({ ...core.cpu(), sender: ownCpuSeconds() });

/** Returns the CPU a second while no status is sent. */
const idleUse = async (core: BenchCore) => {
  const meter = startMeter(readCpu(core));
  await sleep(idleMs);
  const { cpu, seconds } = meter();
  return mapValues(cpu, (used) => used / seconds);
};

const signAll = (hosts: readonly BenchHost[]) => hosts.map((host) => signHeartbeat(host));

/** Sends the heartbeat of each host; returns how long each took. */
const sendAll = (
  senders: readonly HeartbeatSender[],
  heartbeats: readonly object[],
  { rate, isSteady, inFlight }: Load,
): Promise<Float64Array> => {
  const count = heartbeats.length;
  const sendOne = async (index: number) => senders[index]?.send(heartbeats[index] ?? {});
  return rate > 0
    ? runAtRate(count, rate, sendOne)
    : runAll(count, isSteady ? count : inFlight, sendOne);
};

const measureRounds = async (
  core: BenchCore,
  {
    senders,
    hosts,
    load,
    idle,
  }: {
    senders: readonly HeartbeatSender[];
    hosts: readonly BenchHost[];
    load: Load;
    idle: typeof noUse;
  },
) => {
  const { hosts: count, rounds } = load;
  const cpu = { ...noUse };
  const latencies = new Float64Array(count * rounds);
  let seconds = 0;
  let floor = 0;
  let roundStartedAt = 0;
  for (let round = 0; round < rounds; round++) {
    roundStartedAt = Date.now();
    const heartbeats = signAll(hosts);
    const meter = startMeter(readCpu(core));
    latencies.set(await sendAll(senders, heartbeats, load), round * count);
    const used = meter();
    seconds += used.seconds;
    for (const part of ["core", "postgres", "sender"] as const)
      cpu[part] += used.cpu[part] - idle[part] * used.seconds;
    // Between the rounds, so that the same neighbours slow both figures.
    floor += (await verifySignatures(3000)).perSecond / rounds;
  }
  const written = await core.database.sql`select count(*)::int as rows from fleet_status
    where last_heartbeat_at >= ${new Date(roundStartedAt).toISOString()}::timestamptz`;
  if (written[0]?.rows !== count) throw new Error("the last round is not in the database");
  return { cpu, latencies, seconds, floor };
};

const describeRounds = (
  { hosts, rounds, rate, connections, isSteady, inFlight }: Load,
  measured: Awaited<ReturnType<typeof measureRounds>> & {
    idle: typeof noUse;
    log: number;
    kibEach: number;
    coreMb: number;
  },
) => {
  const { cpu, latencies, seconds, floor, idle, log, coreMb } = measured;
  const sent = hosts * rounds;
  const microsecondsEach = (cpuSeconds: number) => rounded((cpuSeconds / sent) * 1e6);
  const perSecond = sent / seconds;
  const ratio = rounded(perSecond / floor, 3);
  const latency = describeSamples(latencies);
  const common = { cpu_us: microsecondsEach(cpu.core + cpu.postgres), core_mb: coreMb };
  const judged = isSteady
    ? judgeGoals("heartbeat --connections stream", { ...common, log_bytes: log })
    : // At a given rate the machine is idle in between.
      judgeGoals("heartbeat", { ...common, ratio: rate > 0 ? null : ratio, p99_ms: latency.p99 });
  return {
    figure: rounded(perSecond),
    unit: "heartbeats/s",
    floor: rounded(floor),
    ratio,
    ...judged,
    goal: benchGoals.heartbeat.ratio.value,
    details: {
      hosts,
      rounds,
      ...(rate > 0 ? { rate } : { in_flight: inFlight }),
      connections,
      seconds: rounded(seconds, 2),
      cpu_us_each: mapValues(cpu, microsecondsEach),
      idle_percent: mapValues(idle, (used) => rounded(used * 100, 1)),
      latency_ms: latency,
      core_peak_rss_mb: coreMb,
      core_kib_of_connection: rounded(measured.kibEach),
      log_bytes_each: log,
      floor: "P-256 verifications by node:crypto on one core",
    },
  };
};
