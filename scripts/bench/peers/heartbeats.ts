import { create, toBinary } from "@bufbuild/protobuf";
import { AgentToServerSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { attributesOf } from "#scripts/lab/opamp-agent.ts";
import { connectHosts, enrollBenchHosts } from "../host/enrolled-hosts.ts";
import {
  connectHeartbeats,
  type HeartbeatSender,
  signHeartbeat,
  verifySignatures,
} from "../host/heartbeats.ts";
import { runAll, runOnEach } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import { cpuSecondsOf, memoryOf, startProgram } from "../support/processes.ts";
import { measureCalls } from "./cpu.ts";
import type { Pair, Side } from "./pair.ts";
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
    const run = () =>
      runAll(hostCount, inFlight, async (index) => senders[index]?.send(heartbeats[index] ?? {}));
    return measureCalls(core, { count: hostCount, rate, run });
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
      return { cpu_us: cpuUs, [rate]: perSecond };
    },
  };
  const program = await peers("opamp-server");
  const sides =
    program === undefined
      ? [ours, floor]
      : [ours, floor, await openOpamp(program, hostCount, defer)];
  return { work: "a heartbeat", sides };
};

const rate = "reports_per_second";

const openOpamp = async (
  program: string,
  hostCount: number,
  defer: PairContext["defer"],
): Promise<Side> => {
  const { edge, port, connect } = await preparePeer("opamp", defer);
  const command = [program, `127.0.0.1:${port}`, edge.certFile, edge.keyFile] as const;
  const running = defer(await startProgram({ command, ready: /ready/ }));
  const connections = await connect(inFlight);
  const count = hostCount * opampReportsPerHost;
  const reports = Array.from({ length: count }, (_, index) => encodeReport(index, hostCount));
  const run = () =>
    runOnEach(connections, count, async (connection, index) => {
      const report = reports[index] ?? "";
      const { status, text } = await connection.post("/v1/opamp", report, opampHeaders);
      if (status !== 200) throw new Error(`report rejected: ${status} ${text}`);
    });
  return {
    name: "opamp-go, HTTPS",
    kind: "peer",
    guarantees: "decodes and answers; no signature, nothing stored",
    measure: () =>
      measureCalls(
        {
          cpu: () => ({ opamp: cpuSecondsOf(running.pid) }),
          peakMb: () => memoryOf(running.pid).peakMb,
        },
        { count, rate, run },
      ),
  };
};

const opampHeaders = "Content-Type: application/x-protobuf\r\n";

/** Encodes an AgentToServer message: instance, sequence number, description, capabilities and health. */
const encodeReport = (sequence: number, hostCount: number): Uint8Array => {
  const instanceUid = Buffer.alloc(16);
  instanceUid.writeUInt32BE(sequence % hostCount);
  const report = create(AgentToServerSchema, {
    instanceUid,
    sequenceNum: BigInt(sequence),
    agentDescription: {
      identifyingAttributes: attributesOf({
        "service.name": "collector",
        "service.version": "1.2.3",
        "host.name": `web-${sequence % hostCount}`,
      }),
    },
    capabilities: 7n,
    health: { healthy: true, startTimeUnixNano: 1_780_000_000_000_000_000n },
  });
  return toBinary(AgentToServerSchema, report);
};
