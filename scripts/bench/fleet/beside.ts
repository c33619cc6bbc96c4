import { setTimeout as sleep } from "node:timers/promises";
import { mapValues } from "../../../kit/map-values.ts";
import { connectSender, type Sender, type SenderStream } from "../ingest/ingest-sender.ts";
import { rounded } from "../support/bench.ts";
import { type CorpusRecord, createCorpus, describeCorpus } from "../support/corpus/corpus.ts";
import { tableBytes } from "../support/disk.ts";
import { startMeter } from "../support/processes.ts";
import { createEnroller } from "./enroll.ts";
import { type FleetLab, fleetPrefix } from "./lab.ts";
import { describeSamples } from "./phases.ts";
import { measureRevocation } from "./revocation.ts";

const framesOf = 200;
/** Streams that share the envelopes, each of a host of its own. */
const streamsMax = 8;

/**
 * Measures heartbeats beside a steady load of envelopes and renewals, with a revocation in the middle. Throws when an acknowledged envelope
 * is not stored.
 */
export const measureBeside = async (
  lab: FleetLab,
  {
    ms,
    envelopesPerSecond,
    renewalsPerSecond,
  }: { ms: number; envelopesPerSecond: number; renewalsPerSecond: number },
) => {
  const corpus = await createCorpus({ mix: "mixed" });
  const { senders, streams } = await openStreams(lab, corpus);
  await lab.workers.take();
  const acks: number[] = [];
  const meter = startMeter(lab.cpu);
  const framesPerSecond = envelopesPerSecond / framesOf / streams.length;
  for (const stream of streams) stream.runAt(framesPerSecond, (latency) => acks.push(latency));
  await lab.workers.renew(renewalsPerSecond);
  await sleep(ms / 2);
  const [revocation] = await Promise.all([measureRevocation(lab), sleep(ms / 2)]);
  await lab.workers.renew(0);
  const acknowledged = streams.reduce((sum, stream) => sum + stream.acknowledged(), 0);
  const used = meter();
  const { figures } = await lab.workers.take();
  await Promise.all(streams.map((stream) => stream.stop()));
  const sent = streams.reduce((sum, stream) => sum + stream.acknowledged(), 0);
  for (const sender of senders) sender.close();
  const [row] = await lab.database.sql<
    { stored: number }[]
  >`select sum(envelopes)::int as stored from ingest_block`;
  // Each stream has one more, which moves its cursor.
  if (row?.stored !== sent + streams.length)
    throw new Error(`${sent} envelopes were acknowledged, ${row?.stored} are stored`);
  const { seconds, cpu } = used;
  const heartbeats = figures.took.heartbeat ?? new Float64Array();
  const renewals = figures.took.renew ?? new Float64Array();
  return {
    envelopes_per_second: rounded(acknowledged / seconds),
    corpus: await describeCorpus(corpus, "mixed"),
    ack_ms: describeSamples(Float64Array.from(acks)),
    table_bytes_each: rounded((await tableBytes(lab.database.sql)).envelopes / row.stored),
    heartbeats: {
      per_second: rounded(heartbeats.length / seconds, 1),
      latency_ms: describeSamples(heartbeats),
    },
    late_ms: describeSamples(figures.late),
    renewals: {
      per_second: rounded(renewals.length / seconds, 1),
      latency_ms: describeSamples(renewals),
    },
    failures: figures.failures,
    percent: mapValues(cpu, (part) => rounded((part / seconds) * 100, 1)),
    core_mb: rounded(lab.coreMemory().nowMb),
    revocation,
  };
};

const openStreams = async (
  lab: FleetLab,
  corpus: readonly CorpusRecord[],
): Promise<{ senders: Sender[]; streams: SenderStream[] }> => {
  const share = corpus.length / streamsMax;
  const ports = lab.ingestPorts();
  const enroller = createEnroller({ apiPort: lab.apiPort(), token: lab.token, inFlight: 1 });
  const senders: Sender[] = [];
  const streams: SenderStream[] = [];
  for (let index = 0; index < streamsMax; index++) {
    const deviceId = `sender-${index}`;
    const hostId = `${fleetPrefix}${deviceId}`;
    const { cert, key } = await enroller.enroll({ identity: hostId, deviceId });
    const sender = await connectSender({
      port: ports[index % ports.length] ?? 0,
      ca: lab.caPem,
      cert,
      key,
    });
    senders.push(sender);
    const records = corpus.slice(index * share, (index + 1) * share);
    const stream = await sender.openStream({
      hostId,
      envelopesOfFrame: framesOf,
      records,
      framesInFlight: 1,
    });
    // A stream that fails acknowledges nothing more, which the count at the end shows.
    stream.failed.catch(() => undefined);
    streams.push(stream);
  }
  enroller.close();
  return { senders, streams };
};
