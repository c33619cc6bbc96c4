import { setTimeout as sleep } from "node:timers/promises";
import { mapValues } from "#kit/map-values.ts";
import { describeSamples } from "#scripts/lab/quantile.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { type Bench, type BenchFigures, rounded } from "../support/bench.ts";
import { type BenchCore, startBenchCore } from "../support/bench-core.ts";
import { createCorpus, describeCorpus, readMix } from "../support/corpus/corpus.ts";
import { judgeGoals } from "../support/goals.ts";
import { memoryOf, ownCpuSeconds, startMeter } from "../support/processes.ts";
import { type WarmFloor, warmFloor } from "../support/warm-floor.ts";
import { type DatabaseUse, measureDatabaseUse } from "./database-use.ts";
import { type Floor, measureCopyLoop } from "./ingest-floors.ts";
import { openStreams } from "./ingest-sender.ts";

/**
 * Measures telemetry through core: `--streams` Forward streams over mTLS send frames of `--frame` envelopes of the corpus (`--corpus spans`
 * or `lines`), as blocks, compressed while it runs, `--in-flight` of them
 * unacknowledged in all but at least one a stream, for `--seconds` after a sixth of that to warm up. Core is a process of its own on a
 * durable PostgreSQL. The floor is a loop that only COPYs the same envelopes as rows, in batches of what is in flight. It is warmed until two
 * in a row agree, and measured once more after. The database must have what was acknowledged. With more than 256 streams all but one are
 * idle: the bench then measures the cost of an idle stream, and the effect of idle streams on a busy one. `--store` is a value of
 * `SVC_INGEST_STORE`, whose key is in the environment, or `directory` for a temporary one: objects need some hundred blocks in flight, of
 * several hosts.
 */
export const ingestBench: Bench = async (args) => {
  const load = await readLoad(args);
  await using folder = await openTemporaryFolder("bench-ingest");
  const location = load.store === "directory" ? `directory:${folder.path}` : load.store;
  const { SVC_INGEST_STORE_CREDENTIALS = "" } = process.env;
  const env = { SVC_INGEST_STORE: location, SVC_INGEST_STORE_CREDENTIALS };
  await using core = await startBenchCore({ env });
  return await (load.streams > 256 ? idleStreams(core, load) : throughput(core, load));
};

const readLoad = async (args: readonly string[]) => {
  const defaults = {
    seconds: 60,
    streams: 1,
    frame: 200,
    corpus: "spans",
    "in-flight": 16,
    store: "postgres",
  };
  const { frame, corpus, "in-flight": inFlight, ...options } = readCommandOptions(defaults, args);
  const mix = readMix(corpus);
  return {
    ...options,
    envelopesOfFrame: frame,
    asBlocks: frame > 1,
    mix,
    records: await createCorpus({ mix }),
    /** The frames that each stream sends before it waits for an ack. */
    framesInFlight: Math.max(1, Math.round(inFlight / options.streams)),
  };
};

type Load = Awaited<ReturnType<typeof readLoad>>;

const sleepSeconds = (seconds: number) => sleep(seconds * 1000);

const throughput = async (core: BenchCore, load: Load): Promise<BenchFigures> => {
  const { sql } = core.database;
  const warmUpSeconds = Math.max(3, load.seconds / 6);
  const { url, pid } = core.database;
  const { records } = load;
  const rowsOfBatch = load.streams * load.framesInFlight * load.envelopesOfFrame;
  const floorAfter = await warmFloor<Floor>(() =>
    measureCopyLoop({ url, pid, seconds: warmUpSeconds, records, rowsOfBatch }),
  );
  const measured = await measureStreams(core, load, warmUpSeconds);
  const [row] = await sql<
    { stored: number }[]
  >`select sum(envelopes)::int as stored from ingest_block`;
  if (row?.stored !== measured.sent + load.streams)
    throw new Error(`${measured.sent} envelopes were acknowledged, ${row?.stored} are stored`);
  const peakMb = core.peakMb();
  await sql`truncate ingest_block`;
  const floor = await floorAfter();
  return describeThroughput(load, { ...measured, peakMb, floor, rowsOfBatch });
};

const measureStreams = async (core: BenchCore, load: Load, warmUpSeconds: number) => {
  const { senders, streams } = await openStreams(core, load, load.streams);
  const acknowledged = () => streams.reduce((sum, stream) => sum + stream.acknowledged(), 0);
  let latencies: number[] = [];
  for (const stream of streams) stream.run((latency) => latencies.push(latency));
  await sleepSeconds(warmUpSeconds);
  latencies = [];
  const warmUp = acknowledged();
  const databaseUse = await measureDatabaseUse(core.database, "ingest_block");
  const meter = startMeter(() => ({ core: core.cpu().core, sender: ownCpuSeconds() }));
  await sleepSeconds(load.seconds);
  const envelopes = acknowledged() - warmUp;
  const { cpu, seconds } = meter();
  const use = await databaseUse(envelopes);
  const acks = describeSamples(latencies);
  await Promise.all(streams.map((stream) => stream.stop()));
  const sent = acknowledged();
  for (const sender of senders) sender.close();
  return { perSecond: envelopes / seconds, cpu: each(cpu, envelopes), use, acks, sent };
};

const each = (cpu: { core: number; sender: number }, envelopes: number) =>
  mapValues(cpu, (seconds) => rounded((seconds * 1e6) / envelopes, 2));

const describeLoad = async ({ records, mix, ...load }: Load) => ({
  ...load,
  corpus: await describeCorpus(records, mix),
});

const describeThroughput = async (
  load: Load,
  measured: Awaited<ReturnType<typeof measureStreams>> & {
    peakMb: number;
    floor: WarmFloor<Floor>;
    rowsOfBatch: number;
  },
): Promise<BenchFigures> => {
  const { perSecond, cpu, use, acks, sent, peakMb, floor, rowsOfBatch } = measured;
  const { mix } = load;
  const { cpu_us: postgresUs, ...bytes } = use;
  const ratio = rounded(perSecond / floor.rate, 3);
  const bytesOf = (used: Omit<DatabaseUse, "cpu_us">) => used.table_bytes + used.wal_bytes;
  const bytesShare = rounded(bytesOf(bytes) / bytesOf(floor.measured), 3);
  const costs = {
    ack_p99_ms: acks.p99,
    core_mb: peakMb,
    core_us: cpu.core,
    postgres_us: postgresUs,
  };
  const judge = () => {
    if (load.store !== "postgres")
      return judgeGoals("ingest --store", { per_second: perSecond, ...costs });
    if (load.envelopesOfFrame === 1)
      return judgeGoals("ingest --streams 64 --frame 1", { per_second: perSecond });
    return judgeGoals("ingest", {
      ratio,
      ...costs,
      bytes_spans: mix === "spans" ? bytesShare : null,
      bytes_lines: mix === "lines" ? bytesShare : null,
    });
  };
  const judged = judge();
  return {
    figure: rounded(perSecond),
    unit: "envelopes/s",
    floor: rounded(floor.rate),
    ratio,
    ...judged,
    ok: judged.ok && floor.agreed,
    details: {
      ...(await describeLoad(load)),
      stored: sent,
      ack_ms: acks,
      core_peak_rss_mb: peakMb,
      cpu_us_each: { ...cpu, postgres: postgresUs },
      bytes_each: bytes,
      bytes_by_those_of_rows: bytesShare,
      floor: `bare COPY loop, ${rowsOfBatch} rows a transaction`,
      floors: { ...floor, rate: rounded(floor.rate) },
    },
  };
};

const idleStreams = async (core: BenchCore, load: Load): Promise<BenchFigures> => {
  const busyLoad = {
    ...load,
    streams: 1,
    framesInFlight: 1,
    envelopesOfFrame: Math.min(load.envelopesOfFrame, 20),
  };
  const busy = await openStreams(core, busyLoad, 1);
  const [stream] = busy.streams;
  if (stream === undefined) throw new Error("no stream");
  const measure = async () => {
    const latencies: number[] = [];
    stream.run((latency) => latencies.push(latency));
    await sleepSeconds(load.seconds / 2);
    await stream.stop();
    return describeSamples(latencies).p99;
  };
  await measure();
  const alone = await measure();
  const before = memoryOf(core.pid).nowMb;
  const idle = await openStreams(core, load, load.streams - 1);
  await sleepSeconds(2);
  const kibEach = ((memoryOf(core.pid).nowMb - before) * 1024) / idle.streams.length;
  const among = await measure();
  for (const sender of [...busy.senders, ...idle.senders]) sender.close();
  const ratio = rounded(among / alone, 1);
  const judged = judgeGoals("ingest --streams 2000", { ratio, core_kib_each: kibEach });
  return {
    figure: rounded(among, 1),
    unit: "ms ack p99 of a busy stream among idle ones (less is better)",
    floor: rounded(alone, 1),
    ratio,
    ...judged,
    details: {
      idle_streams: idle.streams.length,
      connections: idle.senders.length,
      core_rss_kib_each: rounded(kibEach, 1),
      corpus: await describeCorpus(load.records, load.mix),
    },
  };
};
