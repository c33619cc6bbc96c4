import { type IngestCore, prepareIngestCore } from "../../lab/ingest-core.ts";
import { quantile } from "../../lab/quantile.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../../postgres/embedded-database.ts";
import { type Bench, type BenchFigures, ratedFigures, readBenchOptions, rounded } from "../support/bench.ts";
import { cpuSecondsOf, memoryOf } from "../support/processes.ts";
import { measureCopyLoop, measureGroupLoop } from "./ingest-floors.ts";
import { connectSender, type Sender, type SenderStream } from "./ingest-sender.ts";

/**
 * Measures telemetry through core: `--streams` Forward streams over mTLS send frames of `--frame` envelopes of `--payload` bytes,
 * `--in-flight` of them unacknowledged in all but at least one a stream, for `--seconds`. Core is a process of its own on a durable
 * PostgreSQL whose log is warm. The floor, measured before and after, is a loop that only COPYs the same rows in batches of what is in
 * flight; for frames of one envelope it is the group commit alone, without a network. The database must have what was acknowledged. With
 * more than 256 streams all but one are idle: the bench then measures the cost of an idle stream, and the effect of idle streams on a
 * busy one.
 */
export const ingestBench: Bench = async (args) => {
  const defaults = { seconds: 60, streams: 1, frame: 200, payload: 1024, "in-flight": 16 };
  const { seconds, streams, frame, payload, "in-flight": inFlight } = readBenchOptions(args, defaults);
  const framesInFlight = Math.max(1, Math.round(inFlight / streams));
  const load: Load = { seconds, streams, envelopesOfFrame: frame, payloadBytes: payload, framesInFlight };
  await using database = await openEmbeddedDatabase();
  const files = await prepareIngestCore(database.url);
  const core = await files.start();
  try {
    const at = { database, files, port: core.ingestPort, pid: core.process.pid ?? 0 };
    return await (load.streams > 256 ? idleStreams(at, load) : throughput(at, load));
  } finally {
    core.process.kill("SIGKILL");
    await files.remove();
  }
};

interface Load {
  seconds: number;
  streams: number;
  envelopesOfFrame: number;
  payloadBytes: number;
  /** Of each stream. */
  framesInFlight: number;
}

interface Target {
  database: EmbeddedDatabase;
  files: IngestCore;
  port: number;
  pid: number;
}

const throughput = async (at: Target, load: Load): Promise<BenchFigures> => {
  const { database, pid } = at;
  const small = load.envelopesOfFrame === 1;
  const rowsOfBatch = load.streams * load.framesInFlight * load.envelopesOfFrame;
  const floorOf = async () => {
    const { url } = database;
    const loop = { url, seconds: Math.max(3, load.seconds / 6), payloadBytes: load.payloadBytes };
    const rate = small
      ? await measureGroupLoop({ ...loop, senders: rowsOfBatch })
      : await measureCopyLoop({ ...loop, rowsOfBatch });
    await reset(database);
    return rate;
  };
  await warmLog(database);
  const before = await floorOf();
  const { senders, streams } = await openStreams(at, load, load.streams);
  const latencies: number[] = [];
  const cpu = cpuMeter(at);
  const startedAt = performance.now();
  for (const stream of streams) stream.run((latency) => latencies.push(latency));
  await new Promise((resolve) => setTimeout(resolve, load.seconds * 1000));
  const acknowledged = streams.reduce((sum, stream) => sum + stream.acknowledged(), 0);
  const seconds = (performance.now() - startedAt) / 1000;
  const used = cpu();
  await Promise.all(streams.map((stream) => stream.stop()));
  const sent = streams.reduce((sum, stream) => sum + stream.acknowledged(), 0);
  for (const sender of senders) sender.close();
  const [row] = await database.sql<{ stored: number }[]>`select sum(envelopes)::int as stored from ingest_block`;
  if (row?.stored !== sent + streams.length)
    throw new Error(`${sent} envelopes were acknowledged, ${row?.stored} are stored`);
  const peakRssMb = memoryOf(pid).peakMb;
  await reset(database);
  const after = await floorOf();

  const result = ratedFigures({
    figure: acknowledged / seconds,
    floor: (before + after) / 2,
    goal: small ? 0.7 : 0.85,
  });
  const samples = Float64Array.from(latencies);
  const p99 = quantile(samples, 0.99);
  return {
    ...result,
    unit: "envelopes/s",
    ok: result.ok && peakRssMb < 350 && (small ? result.figure >= 15_000 : p99 < 100),
    details: {
      ...load,
      stored: sent,
      ack_ms: { p50: tenths(quantile(samples, 0.5)), p99: tenths(p99), max: tenths(quantile(samples, 1)) },
      core_peak_rss_mb: peakRssMb,
      cpu_us_each: Object.fromEntries(
        Object.entries(used).map(([name, seconds]) => [name, tenths((seconds * 1e6) / acknowledged)]),
      ),
      floor: small
        ? `group commit of ${rowsOfBatch} loops without a network`
        : `bare COPY loop, ${rowsOfBatch} rows a transaction`,
      floor_before: rounded(before),
      floor_after: rounded(after),
      goals: small ? "ratio >= 0.7, >= 15000/s" : "ratio >= 0.85, ack p99 < 100 ms, core's peak RSS < 350 MB",
    },
  };
};

const idleStreams = async (at: Target, load: Load): Promise<BenchFigures> => {
  const busyLoad = { ...load, framesInFlight: 1, envelopesOfFrame: Math.min(load.envelopesOfFrame, 20) };
  const busy = await openStreams(at, busyLoad, 1);
  const [stream] = busy.streams;
  if (stream === undefined) throw new Error("no stream");
  const measure = async () => {
    const latencies: number[] = [];
    stream.run((latency) => latencies.push(latency));
    await new Promise((resolve) => setTimeout(resolve, (load.seconds * 1000) / 2));
    await stream.stop();
    return quantile(Float64Array.from(latencies), 0.99);
  };
  await measure();
  const alone = await measure();
  const before = memoryOf(at.pid).nowMb;
  const idle = await openStreams(at, load, load.streams - 1);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const kibEach = ((memoryOf(at.pid).nowMb - before) * 1024) / idle.streams.length;
  const among = await measure();
  for (const sender of [...busy.senders, ...idle.senders]) sender.close();
  const ratio = tenths(among / alone);
  return {
    figure: tenths(among),
    unit: "ms ack p99 of a busy stream among idle ones (less is better)",
    floor: tenths(alone),
    ratio,
    goal: 2,
    ok: ratio < 2 && kibEach < 60,
    details: {
      idle_streams: idle.streams.length,
      connections: idle.senders.length,
      core_rss_kib_each: tenths(kibEach),
      goals: "core's RSS per idle stream < 60 KiB; p99 of one busy stream < 2 x alone",
    },
  };
};

/** Opens streams, eight on each connection (the most that core accepts), each connection with an identity of its own. */
const openStreams = async (at: Target, load: Load, count: number) => {
  const senders: Sender[] = [];
  const streams: SenderStream[] = [];
  const connections = Math.ceil(count / 8);
  for (let index = 0; index < connections; index++) {
    const hostId = `spiffe://fleet.bench/${crypto.randomUUID()}`;
    const sender = await connectSender({ port: at.port, ca: at.files.caPem, ...(await at.files.client(hostId)) });
    senders.push(sender);
    for (let stream = 0; stream < 8 && streams.length < count; stream++)
      streams.push(await sender.openStream({ ...load, hostId }));
  }
  return { senders, streams };
};

/** Empties the table and writes a checkpoint, so that every measurement starts alike. */
const reset = async ({ sql }: EmbeddedDatabase): Promise<void> => {
  await sql`truncate ingest_envelope, ingest_block`;
  await sql`checkpoint`;
};

/**
 * Writes as much log as a checkpoint recycles. PostgreSQL zeroes each new segment first, which in a young database costs a third of the
 * rate: the floor before the run would pay it alone.
 */
const warmLog = async (database: EmbeddedDatabase): Promise<void> => {
  await measureCopyLoop({ url: database.url, seconds: 4, rowsOfBatch: 3_200, payloadBytes: 1_024 });
  await reset(database);
};

/** Returns a function that returns the CPU seconds since this call, of each of the three that share the machine. */
const cpuMeter = ({ pid, database }: Target) => {
  const read = () => {
    const { user, system } = process.cpuUsage();
    return { core: cpuSecondsOf(pid), sender: (user + system) / 1e6, database: cpuSecondsOf(database.pid) };
  };
  const before = read();
  return () => {
    const now = read();
    return {
      core: now.core - before.core,
      sender: now.sender - before.sender,
      database: now.database - before.database,
    };
  };
};

const tenths = (value: number): number => rounded(value, 1);
