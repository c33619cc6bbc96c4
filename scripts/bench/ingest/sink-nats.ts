import { AckPolicy, jetstream } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { describeSamples } from "#scripts/lab/quantile.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { type Bench, rounded } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import {
  type CorpusRecord,
  createCorpus,
  createSupply,
  describeCorpus,
  readMix,
} from "../support/corpus/corpus.ts";
import { judgeGoals } from "../support/goals.ts";
import { startMeter } from "../support/processes.ts";
import { warmFloor } from "../support/warm-floor.ts";
import { openStreams } from "./ingest-sender.ts";

/**
 * Measures telemetry through core into NATS JetStream: `--streams` Forward streams over mTLS send frames of `--frame` envelopes of the corpus
 * (`--corpus`) for `--seconds`, to `--nodes` nodes that each have a replica. Twice: with nodes as they ship, which sync their files every two
 * minutes, so that a power cut loses what one replica acknowledged, and with every message synced, which needs a nats-server of 2.10 in
 * `NATS_SERVER`. The floor, warmed until two in a row agree, is a bare publisher of the official client on the same nodes: as many subjects,
 * each message with the expected sequence of its subject and the acknowledgement of the one before. The stream must have what was
 * acknowledged, once.
 */
export const sinkNatsBench: Bench = async (args) => {
  const defaults = {
    seconds: 15,
    streams: 64,
    frame: 50,
    corpus: "spans",
    "in-flight": 2,
    nodes: 1,
  };
  const options = readCommandOptions(defaults, args);
  const mix = readMix(options.corpus);
  const records = await createCorpus({ mix });
  const shipped = await measureSink({ ...options, records, syncAlways: false });
  const synced = await measureSink({ ...options, records, syncAlways: true }).catch(
    (error: unknown) => `not measured: ${error instanceof Error ? error.message : String(error)}`,
  );
  const { per_second: perSecond, floor, ratio, acknowledged, stored } = shipped;
  const lost = Math.abs(acknowledged - stored);
  const judged = judgeGoals("sink-nats", { per_second: perSecond, ratio, lost });
  return {
    figure: perSecond,
    unit: "envelopes/s acknowledged, files synced every two minutes",
    floor: rounded(floor.rate),
    ratio,
    ...judged,
    ok: judged.ok && floor.agreed,
    details: {
      ...options,
      corpus: await describeCorpus(records, mix),
      shipped,
      every_message_synced: synced,
    },
  };
};

interface SinkLoad {
  seconds: number;
  streams: number;
  frame: number;
  "in-flight": number;
  nodes: number;
  records: readonly CorpusRecord[];
  syncAlways: boolean;
}

const measureSink = async ({
  seconds,
  streams,
  frame,
  nodes,
  records,
  syncAlways,
  ...load
}: SinkLoad) => {
  const nats = await startNats({ nodes, syncAlways, fileStoreBytes: 8 * 2 ** 30 });
  await using resources = new AsyncDisposableStack();
  resources.defer(() => nats.stop());
  const core = await startBenchCore({
    env: {
      SVC_INGEST_SINK: "nats",
      SVC_NATS_URLS: nats.addresses.map((address) => `nats://${address}`).join(),
      SVC_NATS_REPLICAS: String(nodes),
      SVC_NATS_DURABILITY: syncAlways ? "synced" : "replicated",
    },
  });
  resources.use(core);
  const floorSeconds = Math.max(3, seconds / 4);
  const floorAfter = await warmFloor(async () => ({
    rate: await measureBarePublisher(nats, {
      seconds: floorSeconds,
      streams,
      next: createSupply(records),
    }),
  }));
  const options = { streams, records, envelopesOfFrame: frame, framesInFlight: load["in-flight"] };
  const { senders, streams: opened } = await openStreams(core, options, streams);
  resources.defer(() => senders.forEach((sender) => void sender.close()));
  const had = await envelopesIn(nats);
  const meter = startMeter(core.cpu);
  const latencies: number[] = [];
  for (const stream of opened) stream.run((latency) => latencies.push(latency));
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  await Promise.all(opened.map((stream) => stream.stop()));
  const used = meter();
  const acknowledged = opened.reduce((sum, stream) => sum + stream.acknowledged(), 0);
  const stored = (await envelopesIn(nats)) - had;
  const floor = await floorAfter();
  return {
    durability: `${nodes} ${nodes === 1 ? "replica, its" : "replicas, their"} files synced ${syncAlways ? "with every message" : "every two minutes"}`,
    nats_server: nats.connection.info?.version,
    per_second: rounded(acknowledged / used.seconds),
    floor,
    ratio: rounded(acknowledged / used.seconds / floor.rate, 3),
    acknowledged,
    stored,
    ack_ms: describeSamples(latencies),
    core_cpu_us_each: rounded((used.cpu.core * 1e6) / acknowledged, 1),
    core_peak_rss_mb: core.peakMb(),
  };
};

/** Counts the envelopes of all blocks, by their headers. */
const envelopesIn = async ({ connection, manager }: RunningNats): Promise<number> => {
  const { state } = await manager.streams.info("SVC_INGEST");
  const { name } = await manager.consumers.add("SVC_INGEST", {
    ack_policy: AckPolicy.None,
    headers_only: true,
    inactive_threshold: 60e9,
  });
  const consumer = await jetstream(connection).consumers.get("SVC_INGEST", name);
  let envelopes = 0;
  if (state.messages === 0) return envelopes;
  for await (const { headers, info } of await consumer.consume()) {
    envelopes += Number(headers?.get("Svc-Envelopes") || 0);
    if (info.pending === 0) break;
  }
  return envelopes;
};

/** Measures messages a second of `streams` loops, each on a subject of its own in the stream of envelopes. */
const measureBarePublisher = async (
  nats: RunningNats,
  { seconds, streams, next }: { seconds: number; streams: number; next: () => Uint8Array },
): Promise<number> => {
  const connection = await connect({ servers: nats.addresses });
  const js = jetstream(connection);
  const run = crypto.randomUUID();
  const startedAt = performance.now();
  const until = startedAt + seconds * 1000;
  let messages = 0;
  const loop = async (subject: string) => {
    let last = 0;
    while (performance.now() < until) {
      last = (await js.publish(subject, next(), { expect: { lastSubjectSequence: last } })).seq;
      messages++;
    }
  };
  await Promise.all(
    Array.from({ length: streams }, (_, index) => loop(`svc.ingest.floor.${run}.${index}`)),
  );
  const rate = messages / ((performance.now() - startedAt) / 1000);
  await connection.close();
  return rate;
};
