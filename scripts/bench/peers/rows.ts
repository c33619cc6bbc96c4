import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { CredentialFiles } from "#scripts/lab/ca/pki.ts";
import { isListening } from "#scripts/ports.ts";
import {
  type EmbeddedDatabase,
  openEmbeddedDatabase,
} from "#scripts/postgres/embedded-database.ts";
import { measureCopyLoop } from "../ingest/ingest-floors.ts";
import { connectSender } from "../ingest/ingest-sender.ts";
import { libpqKeywords } from "../ingest/libpq-keywords.ts";
import { runOnEach } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import {
  type CorpusRecord,
  createCorpus,
  createSupply,
  describeCorpus,
} from "../support/corpus/corpus.ts";
import type { HttpsSender } from "../support/https-sender.ts";
import {
  cpuSecondsOf,
  memoryOf,
  ownCpuSeconds,
  startMeter,
  startProgram,
} from "../support/processes.ts";
import { microsecondsOf } from "./cpu.ts";
import { type Pair, type PeerFigures, type PeerLosses, type Side, warmUpShare } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { preparePeer } from "./process.ts";

const rowsOfRequest = 200;
const framesInFlight = 16;
const perSecond = 60_000;
const killAfterMs = 1_000;

/** A line of the corpus into PostgreSQL as a row, from requests of 200 over TLS. */
export const openRows = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  const records = await createCorpus({ mix: "lines" });
  const core = defer(await startBenchCore({ hasEdge: true }));
  const openStream = async () => {
    const hostId = `spiffe://fleet.bench/${crypto.randomUUID()}`;
    const credentials = await core.files.client(hostId);
    const sender = await connectSender({ port: core.ingestPort, ca: core.ca, ...credentials });
    const stream = await sender.openStream({
      hostId,
      envelopesOfFrame: rowsOfRequest,
      records,
      framesInFlight,
      asBlocks: true,
    });
    await empty(core.database, "ingest_block");
    return { sender, stream };
  };
  const coreSide = async (): Promise<PeerFigures> => {
    const { sender, stream } = await openStream();
    stream.run(() => undefined);
    await sleep(seconds * warmUpShare * 1000);
    const acknowledged = stream.acknowledged();
    const meter = startMeter(core.cpu);
    await sleep(seconds * 1000);
    const rows = stream.acknowledged() - acknowledged;
    const used = meter();
    await stream.stop();
    sender.close();
    return {
      ...microsecondsOf(used.cpu, rows),
      rows_per_second: rows / used.seconds,
      peak_mb: core.peakMb(),
    };
  };
  const floorDatabase = defer(await openEmbeddedDatabase());
  const floor: Side = {
    name: "COPY",
    kind: "floor",
    guarantees: "copies the same rows in batches; no network, no cursor",
    measure: async () => {
      const { url, pid } = floorDatabase;
      const rowsOfBatch = framesInFlight * rowsOfRequest;
      const meter = startMeter(() => ({ loop: ownCpuSeconds(), postgres: cpuSecondsOf(pid) }));
      const { rate } = await measureCopyLoop({ url, pid, seconds, rowsOfBatch, records });
      return { ...microsecondsOf(meter().cpu, rate * seconds), rows_per_second: rate };
    },
  };
  const sides: Side[] = [
    {
      name: "svc-server on PostgreSQL",
      kind: "ours",
      guarantees: "synced and deduplicated before the ack",
      measure: coreSide,
      kill: async () => {
        const { sender, stream } = await openStream();
        stream.run(() => undefined);
        await sleep(killAfterMs);
        await core.kill();
        await sleep(killAfterMs);
        sender.close();
        return lossesOf(stream.acknowledged(), await countStored(core.database));
      },
    },
    floor,
  ];
  const program = await peers("telegraf");
  if (program !== undefined) sides.push(await openTelegraf(program, { seconds, records, defer }));
  return {
    work: "a row into PostgreSQL",
    sides,
    corpus: await describeCorpus(records, "lines"),
  };
};

const telegrafName = "telegraf, influx listener";

/** Starts telegraf with an HTTP listener of influx lines and its postgresql output, on a durable PostgreSQL of its own. */
const openTelegraf = async (
  program: string,
  {
    seconds,
    records,
    defer,
  }: Pick<PairContext, "seconds" | "defer"> & { records: readonly CorpusRecord[] },
): Promise<Side> => {
  const database = defer(await openEmbeddedDatabase());
  const { folder, edge, port, connect } = await preparePeer("telegraf", defer);
  const config = telegrafConfig({ port, edge, database });
  await writeFile(join(folder, "telegraf.conf"), config);
  await database.sql.unsafe(
    "create table log (time timestamp, queue text, kind text, sequence bigint, message text)",
  );
  const command = [program, "--config", join(folder, "telegraf.conf")] as const;
  const running = defer(await startProgram({ command, ready: /Config: Agent|Loaded outputs/ }));
  await listening(port);
  const connections = await connect(framesInFlight);
  const nextLine = createSupply(records);
  let sequence = 0;
  const bodyOf = (): string => {
    const lines: string[] = [];
    for (let row = 0; row < rowsOfRequest; row++) {
      sequence++;
      const message = nextLine().toString("latin1").replace(/["\\]/g, "\\$&");
      lines.push(
        `log,kind=otel_log,queue=0123456789abcdef sequence=${sequence}i,message="${message}" ${1_780_000_000_000_000 + sequence}000`,
      );
    }
    return `${lines.join("\n")}\n`;
  };
  const post = (sender: HttpsSender) =>
    sender.post("/telegraf", bodyOf(), "Content-Type: text/plain\r\n");
  const send = (rows: number) =>
    runOnEach(connections, rows / rowsOfRequest, async (sender) => {
      const { status, text } = await post(sender);
      if (status !== 200) throw new Error(`lines rejected: ${status} ${text}`);
    });
  const kill = async (): Promise<PeerLosses> => {
    await empty(database, "log");
    let acknowledged = 0;
    const sendOn = async (sender: HttpsSender) => {
      for (;;) {
        const { status } = await post(sender);
        if (status === 200) acknowledged += rowsOfRequest;
      }
    };
    // Each ends with the error of its connection.
    const sending = Promise.allSettled(connections.map(sendOn));
    await sleep(killAfterMs);
    await running.stop("SIGKILL");
    await sending;
    await sleep(killAfterMs);
    return lossesOf(acknowledged, await countRows(database, "log"));
  };
  const cpu = () => ({ telegraf: cpuSecondsOf(running.pid), postgres: cpuSecondsOf(database.pid) });
  return {
    name: telegrafName,
    kind: "peer",
    guarantees: "OK from memory",
    kill,
    measure: async () => {
      await empty(database, "log");
      const rows = requestsOf(seconds) * rowsOfRequest;
      const warmUpRows = requestsOf(seconds * warmUpShare) * rowsOfRequest;
      await send(warmUpRows);
      await stored(database, warmUpRows, startMeter(cpu));
      await empty(database, "log");
      const meter = startMeter(cpu);
      await send(rows);
      const used = await stored(database, rows, meter);
      return {
        ...microsecondsOf(used.cpu, rows),
        rows_per_second: rows / used.seconds,
        peak_mb: memoryOf(running.pid).peakMb,
      };
    },
  };
};

const telegrafConfig = ({
  port,
  edge,
  database,
}: {
  port: number;
  edge: CredentialFiles;
  database: EmbeddedDatabase;
}) => `[agent]
  metric_batch_size = 10000
  metric_buffer_limit = 5000000
  flush_interval = "200ms"
  omit_hostname = true
[[inputs.http_listener_v2]]
  service_address = "tcp://127.0.0.1:${port}"
  paths = ["/telegraf"]
  http_success_code = 200
  # By default it closes the connections that wait for their side's turn.
  read_timeout = "10m"
  write_timeout = "10m"
  data_format = "influx"
  tls_cert = "${edge.certFile}"
  tls_key = "${edge.keyFile}"
[[outputs.postgresql]]
  connection = "${libpqKeywords(database.url)}"
`;

/** Empties a table and writes a checkpoint, so that every round starts alike. */
const empty = async ({ sql }: EmbeddedDatabase, table: string): Promise<void> => {
  await sql`truncate ${sql(table)}`;
  await sql`checkpoint`;
};

const countStored = async ({ sql }: EmbeddedDatabase): Promise<number> =>
  Number(
    (
      await sql<{ count: string }[]>`select coalesce(sum(envelopes), 0) as count from ingest_block`
    )[0]?.count,
  );

const countRows = async ({ sql }: EmbeddedDatabase, table: string): Promise<number> => {
  const [counted] = await sql<
    { rows: number }[]
  >`select count(*)::float8 as rows from ${sql(table)}`;
  return counted?.rows ?? 0;
};

/** More rows than were acknowledged is no loss: the kill came between commit and ack. */
const lossesOf = (acknowledged: number, kept: number): PeerLosses => ({
  acknowledged,
  lost: Math.max(0, acknowledged - kept),
});

const requestsOf = (seconds: number): number => Math.ceil((seconds * perSecond) / rowsOfRequest);

const quietMs = 1_000;

/**
 * Resolves when the table has `rows` rows, with what the meter showed when it last grew: looking at its size costs PostgreSQL little,
 * counting it a lot.
 */
const stored = async <Used>(
  database: EmbeddedDatabase,
  rows: number,
  meter: () => Used,
): Promise<Used> => {
  let bytes = -1;
  let last = { at: performance.now(), used: meter() };
  for (const deadline = performance.now() + 60_000; performance.now() < deadline; await sleep(50)) {
    const [size] = await database.sql<
      { bytes: number }[]
    >`select pg_relation_size('log')::float8 as bytes`;
    if (size?.bytes !== bytes) {
      bytes = size?.bytes ?? 0;
      last = { at: performance.now(), used: meter() };
    } else if (performance.now() - last.at > quietMs) {
      if ((await countRows(database, "log")) === rows) return last.used;
    }
  }
  throw new Error(`${rows} rows were acknowledged and are not stored after a minute`);
};

const listening = async (port: number): Promise<void> => {
  while (!(await isListening(`127.0.0.1:${port}`))) await sleep(50);
};
