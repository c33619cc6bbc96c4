import { jetstream } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { prepareIngestCore } from "../../lab/ingest-core.ts";
import { type RunningNats, startNats } from "../../lab/nats-servers.ts";
import { quantile } from "../../lab/quantile.ts";
import { openEmbeddedDatabase } from "../../postgres/embedded-database.ts";
import { type Bench, ratedFigures, readBenchOptions, rounded } from "../support/bench.ts";
import { cpuSecondsOf, memoryOf } from "../support/processes.ts";
import { connectSender, type Sender, type SenderStream } from "./ingest-sender.ts";

/**
 * Measures telemetry through core into NATS JetStream: `--streams` Forward streams over mTLS send frames of `--frame` envelopes of
 * `--payload` bytes for `--seconds`, `--nodes` nodes that each have a replica; with `--sync-always` they sync each write, which
 * needs a nats-server of 2.10 in `NATS_SERVER`. The floor, measured before and after, is a bare publisher of the official
 * client on the same nodes: as many subjects, each message with the expected sequence of its subject and the acknowledgement of the one
 * before. The stream must have what was acknowledged, once.
 */
export const sinkNatsBench: Bench = async (args) => {
  const defaults = {
    seconds: 15,
    streams: 64,
    frame: 50,
    payload: 1024,
    "in-flight": 2,
    nodes: 1,
    "sync-always": false as const,
  };
  const options = readBenchOptions(args, defaults);
  const { seconds, streams, frame, payload, "in-flight": framesInFlight, nodes, "sync-always": syncAlways } = options;
  await using database = await openEmbeddedDatabase();
  const nats = await startNats({ nodes, syncAlways, fileStoreBytes: 8 * 2 ** 30 });
  const files = await prepareIngestCore(database.url, {
    env: {
      SVC_INGEST_SINK: "nats",
      SVC_NATS_URLS: nats.addresses.map((address) => `nats://${address}`).join(),
      SVC_NATS_REPLICAS: String(nodes),
      SVC_NATS_DURABILITY: syncAlways ? "synced" : "replicated",
    },
  });
  const core = await files.start();
  const senders: Sender[] = [];
  try {
    const floorSeconds = Math.max(3, seconds / 4);
    await measureBarePublisher(nats, { seconds: 1, streams, payload });
    const before = await measureBarePublisher(nats, { seconds: floorSeconds, streams, payload });
    const opened: SenderStream[] = [];
    for (let index = 0; index * 8 < streams; index++) {
      const hostId = `spiffe://fleet.bench/${crypto.randomUUID()}`;
      const sender = await connectSender({ port: core.ingestPort, ca: files.caPem, ...(await files.client(hostId)) });
      senders.push(sender);
      const load = { hostId, envelopesOfFrame: frame, payloadBytes: payload, framesInFlight };
      for (let stream = 0; stream < 8 && opened.length < streams; stream++) opened.push(await sender.openStream(load));
    }
    const pid = core.process.pid ?? 0;
    const had = await envelopesIn(nats);
    const cpuBefore = cpuSecondsOf(pid);
    const startedAt = performance.now();
    const latencies: number[] = [];
    for (const stream of opened) stream.run((latency) => latencies.push(latency));
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    await Promise.all(opened.map((stream) => stream.stop()));
    const elapsed = (performance.now() - startedAt) / 1000;
    const cpu = cpuSecondsOf(pid) - cpuBefore;
    const acknowledged = opened.reduce((sum, stream) => sum + stream.acknowledged(), 0);
    const stored = (await envelopesIn(nats)) - had;
    const after = await measureBarePublisher(nats, { seconds: floorSeconds, streams, payload });
    const result = ratedFigures({ figure: acknowledged / elapsed, floor: (before + after) / 2, goal: 0.7 });
    const samples = Float64Array.from(latencies);
    return {
      ...result,
      unit: "envelopes/s",
      ok: result.ok && stored === acknowledged,
      details: {
        ...options,
        nats_server: nats.connection.info?.version,
        acknowledged,
        stored,
        ack_ms: { p50: rounded(quantile(samples, 0.5), 1), p99: rounded(quantile(samples, 0.99), 1) },
        core_cpu_us_each: rounded((cpu * 1e6) / acknowledged, 1),
        core_peak_rss_mb: memoryOf(pid).peakMb,
        floor: "bare publisher of @nats-io/jetstream with expected sequences, one message in flight a subject",
        floor_before: rounded(before),
        floor_after: rounded(after),
        goals: "ratio >= 0.7, stored = acknowledged",
      },
    };
  } finally {
    for (const sender of senders) sender.close();
    core.process.kill("SIGKILL");
    await files.remove();
    await nats.stop();
  }
};

const envelopesIn = async ({ manager }: RunningNats): Promise<number> =>
  (await manager.streams.info("SVC_INGEST")).state.messages;

/** Measures messages a second of `streams` loops, each on a subject of its own in the stream of envelopes. */
const measureBarePublisher = async (
  nats: RunningNats,
  { seconds, streams, payload }: { seconds: number; streams: number; payload: number },
): Promise<number> => {
  const connection = await connect({ servers: nats.addresses });
  const js = jetstream(connection);
  const bytes = crypto.getRandomValues(new Uint8Array(payload));
  const run = crypto.randomUUID();
  const startedAt = performance.now();
  const until = startedAt + seconds * 1000;
  let messages = 0;
  const loop = async (subject: string) => {
    let last = 0;
    while (performance.now() < until) {
      last = (await js.publish(subject, bytes, { expect: { lastSubjectSequence: last } })).seq;
      messages++;
    }
  };
  await Promise.all(Array.from({ length: streams }, (_, index) => loop(`svc.ingest.floor.${run}.${index}`)));
  const rate = messages / ((performance.now() - startedAt) / 1000);
  await connection.close();
  return rate;
};
