import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { quantile } from "#scripts/lab/quantile.ts";
import { connectHosts, enrollBenchHosts } from "../host/enrolled-hosts.ts";
import {
  connectHeartbeats,
  type HeartbeatSender,
  signHeartbeat,
  verifySignatures,
} from "../host/heartbeats.ts";
import { runAll, runOnEach } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import { cpuSecondsOf, memoryOf, startMeter, startProgram } from "../support/processes.ts";
import { type CpuParts, microsecondsOf } from "./cpu.ts";
import type { Pair, PeerFigures, Side } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { preparePeer } from "./process.ts";

const hostsMax = 3000;
const hostsPerSecond = 1000;
const inFlight = 256;
/** A report of OpAMP costs so little that a round of one for each host would be too short. */
const opampReportsPerHost = 10;

/** The report of a healthy agent, over kept TLS connections. */
export const openHeartbeats = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  const hostCount = Math.min(hostsMax, Math.ceil(seconds * hostsPerSecond));
  const core = defer(
    await startBenchCore({ env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" }, hasEdge: true }),
  );
  const hosts = await enrollBenchHosts(core, hostCount);
  let senders: HeartbeatSender[] = [];
  defer({ [Symbol.asyncDispose]: async () => senders.forEach((sender) => void sender.close()) });
  const sendAll = () => {
    const heartbeats = hosts.map((host) => signHeartbeat(host));
    const sendEach = () =>
      runAll(hosts.length, inFlight, async (index) =>
        senders[index]?.send(heartbeats[index] ?? {}),
      );
    return measureReports({ ...core, count: hosts.length, sendEach });
  };
  const ours: Side = {
    name: "svc-server on PostgreSQL",
    kind: "ours",
    guarantees: "mutual TLS; verifies a signature; synced before the response",
    measure: async () => {
      if (senders.length === 0) {
        senders = await connectHosts(hosts, (host) => connectHeartbeats(core, host, "http1"));
        await sendAll();
      }
      return sendAll();
    },
  };
  const floor: Side = {
    name: "verify",
    kind: "floor",
    guarantees: "checks the signatures; no network, nothing stored",
    measure: async () => {
      const { cpuUs, perSecond } = await verifySignatures(hostCount);
      return { cpu_us: cpuUs, reports_per_second: perSecond };
    },
  };
  const program = await peers("opamp-server");
  const sides =
    program === undefined
      ? [ours, floor]
      : [ours, floor, await openOpamp(program, hostCount, defer)];
  return { work: "a heartbeat", sides };
};

const measureReports = async (load: {
  count: number;
  sendEach: () => Promise<Float64Array>;
  cpu: () => CpuParts;
  peakMb: () => number;
}): Promise<PeerFigures> => {
  const meter = startMeter(load.cpu);
  const latencies = await load.sendEach();
  const { cpu, seconds } = meter();
  return {
    ...microsecondsOf(cpu, load.count),
    reports_per_second: load.count / seconds,
    p99_ms: quantile(latencies, 0.99),
    peak_mb: load.peakMb(),
  };
};

const openOpamp = async (
  program: string,
  hostCount: number,
  defer: PairContext["defer"],
): Promise<Side> => {
  const { edge, port, connect } = await preparePeer("opamp", defer);
  const running = defer(
    await startProgram([program, `127.0.0.1:${port}`, edge.certFile, edge.keyFile], (line) =>
      /ready/.test(line),
    ),
  );
  const connections = await connect(inFlight);
  const count = hostCount * opampReportsPerHost;
  const sendEach = () =>
    runOnEach(connections, count, async (connection, index) => {
      const { status, text } = await connection.post(
        "/v1/opamp",
        encodeReport(index, hostCount),
        opampHeaders,
      );
      if (status !== 200) throw new Error(`report rejected: ${status} ${text}`);
    });
  return {
    name: "opamp-go, HTTPS",
    kind: "peer",
    guarantees: "decodes and answers; no signature, nothing stored",
    measure: () =>
      measureReports({
        count,
        sendEach,
        cpu: () => ({ opamp: cpuSecondsOf(running.pid) }),
        peakMb: () => memoryOf(running.pid).peakMb,
      }),
  };
};

const opampHeaders = "Content-Type: application/x-protobuf\r\n";

/** Encodes an AgentToServer message: instance, sequence number, description, capabilities and health. */
const encodeReport = (sequence: number, hostCount: number): Uint8Array => {
  const attribute = (writer: BinaryWriter, key: string, value: string) =>
    writer
      .tag(1, WireType.LengthDelimited)
      .fork()
      .tag(1, WireType.LengthDelimited)
      .string(key)
      .tag(2, WireType.LengthDelimited)
      .fork()
      .tag(1, WireType.LengthDelimited)
      .string(value)
      .join()
      .join();
  const writer = new BinaryWriter();
  const instance = Buffer.alloc(16);
  instance.writeUInt32BE(sequence % hostCount);
  writer.tag(1, WireType.LengthDelimited).bytes(instance).tag(2, WireType.Varint).uint64(sequence);
  writer.tag(3, WireType.LengthDelimited).fork();
  attribute(writer, "service.name", "collector");
  attribute(writer, "service.version", "1.2.3");
  attribute(writer, "host.name", `web-${sequence % hostCount}`);
  writer.join().tag(4, WireType.Varint).uint64(0x7);
  writer.tag(5, WireType.LengthDelimited).fork();
  writer
    .tag(1, WireType.Varint)
    .bool(true)
    .tag(2, WireType.Bit64)
    .fixed64(1_780_000_000_000_000_000n)
    .join();
  return writer.finish();
};
