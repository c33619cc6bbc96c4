import { parseArgs } from "node:util";
import { type IngestCore, prepareIngestCore } from "../lab/ingest-core.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { type Bench, quantile, rated } from "./bench.ts";
import { measureCopyLoop } from "./ingest/copy-loop.ts";
import { measureGroupLoop } from "./ingest/group-loop.ts";
import { connectSender, type Sender, type SenderStream } from "./ingest/raw-sender.ts";
import { cpuSecondsOf, memoryOf } from "./process-usage.ts";

/**
 * Telemetry through core: `--streams` Forward streams over mTLS send frames of `--frame` envelopes of `--payload` bytes, `--in-flight`
 * of them unacknowledged in all but at least one a stream, for `--seconds`. Core is a process of its own on a durable PostgreSQL. The
 * floor, measured before and after, is a loop that only COPYs the same rows in batches of what is in flight; of frames of one
 * envelope it is the group commit itself, fed without a wire. What is acknowledged is counted in the database. With more than 256
 * streams all but one are idle: what an idle stream costs, and what idle streams cost a busy one.
 */
export const bench: Bench = async (args) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: "string", default: "60" },
      streams: { type: "string", default: "1" },
      frame: { type: "string", default: "200" },
      payload: { type: "string", default: "1024" },
      "in-flight": { type: "string", default: "16" },
    },
  });
  const load: Load = {
    seconds: Number(values.seconds),
    streams: Number(values.streams),
    envelopesOfFrame: Number(values.frame),
    payloadBytes: Number(values.payload),
    framesInFlight: Math.max(1, Math.round(Number(values["in-flight"]) / Number(values.streams))),
  };
  const database = await openEmbeddedDatabase();
  const files = await prepareIngestCore(database.url);
  const core = await files.start();
  try {
    const at = { database, files, port: core.ingestPort, pid: core.process.pid ?? 0 };
    return await (load.streams > 256 ? idleStreams(at, load) : throughput(at, load));
  } finally {
    core.process.kill("SIGKILL");
    await files.remove();
    await database.close();
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

const throughput = async (at: Target, load: Load) => {
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
  const [row] = await database.sql<{ stored: number }[]>`select count(*)::int as stored from ingest_envelope`;
  if (row?.stored !== sent + streams.length) throw new Error(`${sent} were acknowledged, ${row?.stored} are stored`);
  const peakRssMb = memoryOf(pid).peakMb;
  await reset(database);
  const after = await floorOf();

  const goals = small ? { goal: 0.7 } : { goal: 0.85 };
  const result = rated("ingest", "envelopes/s", {
    figure: acknowledged / seconds,
    floor: (before + after) / 2,
    ...goals,
  });
  const samples = Float64Array.from(latencies);
  const p99 = quantile(samples, 0.99);
  return {
    ...result,
    ok: result.ok && peakRssMb < 350 && (small ? result.figure >= 15_000 : p99 < 100),
    details: {
      ...load,
      stored: sent,
      ack_ms: { p50: round(quantile(samples, 0.5)), p99: round(p99), max: round(quantile(samples, 1)) },
      core_peak_rss_mb: peakRssMb,
      cpu_us_each: Object.fromEntries(
        Object.entries(used).map(([name, seconds]) => [name, round((seconds * 1e6) / acknowledged)]),
      ),
      floor: small
        ? `group commit of ${rowsOfBatch} loops without a wire`
        : `bare COPY loop, ${rowsOfBatch} rows a transaction`,
      floor_before: Math.round(before),
      floor_after: Math.round(after),
      goals: small ? "ratio >= 0.7, >= 15000/s" : "ratio >= 0.85, ack p99 < 100 ms, core's peak RSS < 350 MB",
    },
  };
};

const idleStreams = async (at: Target, load: Load) => {
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
  const ratio = round(among / alone);
  return {
    name: "ingest",
    figure: round(among),
    unit: "ms ack p99 of a busy stream among idle ones (less is better)",
    floor: round(alone),
    ratio,
    goal: 2,
    ok: ratio < 2 && kibEach < 60,
    details: {
      idle_streams: idle.streams.length,
      connections: idle.senders.length,
      core_rss_kib_each: round(kibEach),
      goals: "core's RSS per idle stream < 60 KiB; p99 of one busy stream < 2 x alone",
    },
  };
};

/** Eight streams on a connection, each connection with an identity of its own: the most that core lets one have. */
const openStreams = async (at: Target, load: Load, count: number) => {
  const senders: Sender[] = [];
  const streams: SenderStream[] = [];
  const connections = Math.ceil(count / 8);
  for (let index = 0; index < connections; index++) {
    const hostId = `spiffe://fleet.bench/${crypto.randomUUID()}`;
    const sender = await connectSender({ port: at.port, ca: at.files.ca.pem, ...(await at.files.client(hostId)) });
    senders.push(sender);
    for (let stream = 0; stream < 8 && streams.length < count; stream++)
      streams.push(await sender.openStream({ ...load, hostId }));
  }
  return { senders, streams };
};

/** Every measurement starts on an empty table and a fresh checkpoint. */
const reset = async ({ sql }: EmbeddedDatabase): Promise<void> => {
  await sql`truncate ingest_envelope`;
  await sql`checkpoint`;
};

/** CPU seconds since the call, of each of the three that share the machine. */
const cpuMeter = ({ pid, database }: Target) => {
  const read = () => ({
    core: cpuSecondsOf(pid),
    sender: process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6,
    database: cpuSecondsOf(database.pid),
  });
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

const round = (value: number): number => Math.round(value * 10) / 10;
