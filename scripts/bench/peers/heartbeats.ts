import { verify } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { loadLocalCa } from "../../../functions/node/load-signer.ts";
import { createNodeCryptography } from "../../../functions/node/node-cryptography.ts";
import { systemClock } from "../../../kit/clock.ts";
import { encodePem } from "../../../proto/pem.ts";
import { createLabPki } from "../../lab/ca/pki.ts";
import { quantile } from "../../lab/quantile.ts";
import { findPorts } from "../../ports.ts";
import { type BenchHost, enrollBenchHosts } from "../management/enrolled-hosts.ts";
import { hostsPerAddress, signHeartbeat } from "../management/heartbeat.ts";
import { runAll } from "../support/bench.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import { cpuSecondsOf, memoryOf } from "../support/processes.ts";
import { startPeerCore } from "./core.ts";
import { type CpuParts, microsecondsOf } from "./cpu.ts";
import type { Pair, PeerFigures, Side } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { startProgram } from "./process.ts";

const hostsMax = 3000;
const hostsPerSecond = 1000;
const inFlight = 256;
/** A report of OpAMP costs so little that a round of one for each host would be too short. */
const opampReportsPerHost = 10;

/** The report of a healthy agent, over kept TLS connections. */
export const openHeartbeats = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  const hostCount = Math.min(hostsMax, Math.ceil(seconds * hostsPerSecond));
  let hosts: BenchHost[] = [];
  const core = defer(
    await startPeerCore({
      env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" },
      seed: async ({ db }, { pki }) => {
        const { certFile: certificateFile, keyFile } = pki.enrollmentCa;
        const { signer } = await loadLocalCa({ certificateFile, keyFile, cryptography: createNodeCryptography() });
        hosts = await enrollBenchHosts(db, { signer, count: hostCount, now: systemClock.now() });
      },
    }),
  );
  const senders = new Map<BenchHost, HttpsSender>();
  defer({ [Symbol.asyncDispose]: async () => closeAll(senders.values()) });
  const sign = () => hosts.map((host) => signHeartbeat(host, systemClock.now()));
  const sendAll = () => {
    const heartbeats = sign();
    const report = async (index: number) => {
      const heartbeat = heartbeats[index];
      const sender = heartbeat && senders.get(heartbeat.host);
      if (heartbeat === undefined || sender === undefined) throw new Error("a host is missing");
      const { status, text } = await sender.post("/v1/collector/heartbeat", heartbeat.body);
      if (status !== 200) throw new Error(`heartbeat rejected: ${text}`);
    };
    return measureReports({ count: hosts.length, report, cpu: core.cpu, peakMb: core.peakMb });
  };
  const ours: Side = {
    name: "svc-server on PostgreSQL",
    kind: "ours",
    guarantees: "mutual TLS; verifies a signature; synced before the response",
    measure: async () => {
      if (senders.size === 0) {
        await connectAll(hosts, core, senders);
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
      const heartbeats = sign();
      const [before, startedAt] = [process.cpuUsage(), performance.now()];
      for (const { data, signature, host } of heartbeats)
        if (!verify("sha256", data, host.publicKey, signature)) throw new Error("a signature of ours does not verify");
      const { user, system } = process.cpuUsage(before);
      const elapsed = (performance.now() - startedAt) / 1000;
      return { cpu_us: (user + system) / heartbeats.length, reports_per_second: heartbeats.length / elapsed };
    },
  };
  const program = await peers("opamp-server");
  const sides = program === undefined ? [ours, floor] : [ours, floor, await openOpamp(program, hostCount, defer)];
  return { work: "a heartbeat", sides };
};

const connectAll = async (
  hosts: readonly BenchHost[],
  { ingestPort: port, ca }: { ingestPort: number; ca: string },
  senders: Map<BenchHost, HttpsSender>,
): Promise<void> => {
  await runAll(hosts.length, 16, async (index) => {
    const host = hosts[index];
    if (host === undefined) return;
    const target = {
      port,
      ca,
      cert: encodePem(host.certificate, "CERTIFICATE"),
      key: host.privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
      localAddress: `127.0.${1 + Math.floor(index / hostsPerAddress)}.1`,
    };
    // On a busy machine a handshake may exceed core's deadline: like a collector, connect again.
    senders.set(host, await connectHttps(target).catch(() => connectHttps(target)));
  });
};

const closeAll = (senders: Iterable<HttpsSender>): void => {
  for (const sender of senders) sender.close();
};

const measureReports = async (load: {
  count: number;
  report: (index: number) => Promise<void>;
  cpu: () => CpuParts;
  peakMb: () => number;
}): Promise<PeerFigures> => {
  const [before, startedAt] = [load.cpu(), performance.now()];
  const latencies = await runAll(load.count, inFlight, load.report);
  const elapsed = (performance.now() - startedAt) / 1000;
  return {
    ...microsecondsOf(before, load.cpu(), load.count),
    reports_per_second: load.count / elapsed,
    p99_ms: quantile(latencies, 0.99),
    peak_mb: load.peakMb(),
  };
};

const openOpamp = async (program: string, hostCount: number, defer: PairContext["defer"]): Promise<Side> => {
  const folder = await mkdtemp(join(tmpdir(), "bench-opamp-"));
  defer({ [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) });
  const pki = await createLabPki({ dir: folder, clock: systemClock });
  const ca = await readFile(pki.serverCaFile, "utf8");
  const [port = 0] = await findPorts(1);
  const running = await startProgram([program, `127.0.0.1:${port}`, pki.edge.certFile, pki.edge.keyFile], /ready/);
  defer({ [Symbol.asyncDispose]: () => running.stop() });
  const connections = await Promise.all(Array.from({ length: inFlight }, () => connectHttps({ port, ca })));
  defer({ [Symbol.asyncDispose]: async () => closeAll(connections) });
  const free = [...connections];
  const report = async (index: number): Promise<void> => {
    const connection = free.pop();
    if (connection === undefined) throw new Error("no connection is free");
    const { status, text } = await connection.post("/v1/opamp", encodeReport(index, hostCount), opampHeaders);
    if (status !== 200) throw new Error(`report rejected: ${status} ${text}`);
    free.push(connection);
  };
  const cpu = () => ({ opamp: cpuSecondsOf(running.pid) });
  return {
    name: "opamp-go, HTTPS",
    kind: "peer",
    guarantees: "decodes and answers; no signature, nothing stored",
    measure: () =>
      measureReports({
        count: hostCount * opampReportsPerHost,
        report,
        cpu,
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
  writer.tag(1, WireType.Varint).bool(true).tag(2, WireType.Bit64).fixed64(1_780_000_000_000_000_000n).join();
  return writer.finish();
};
