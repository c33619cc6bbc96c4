import { hash, sign, verify } from "node:crypto";
import { systemClock } from "../../kit/clock.ts";
import { canonicalBody, proofPayload } from "../../proto/management/proof.ts";
import { heartbeatBody } from "../lab/heartbeat-body.ts";
import { createInProcessCore, openApp } from "../lab/in-process-core.ts";
import { quantile } from "../lab/quantile.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { type Bench, collectGarbage, ratedFigures, readBenchOptions, rounded, runAll } from "./bench.ts";
import { type BenchHost, createBenchSigner, enrollBenchHosts } from "./enrolled-hosts.ts";
import { cpuSecondsOf } from "./processes.ts";

const goal = 0.6;
const url = "http://core.bench/v1/collector/heartbeat";
/** Interval of a host's heartbeats by the bench's clock: the shortest that the rate limit allows. */
const roundMs = 10_000;

/** CPU seconds used so far: by core with all its threads, by its event loop alone, and by PostgreSQL. */
const cpuNow = (postmaster: number) => {
  const [all, loop] = [process.cpuUsage(), process.threadCpuUsage()];
  return {
    core: (all.user + all.system) / 1e6,
    core_loop: (loop.user + loop.system) / 1e6,
    postgres: cpuSecondsOf(postmaster),
  };
};

/** A heartbeat, ready to send. */
interface SignedHeartbeat {
  host: BenchHost;
  data: Buffer;
  signature: Buffer;
  body: Uint8Array<ArrayBuffer>;
}

/**
 * Measures heartbeats through the whole route: app, proof, group commit into a durable PostgreSQL. The floor is how many of the same
 * signatures one core verifies. `--hosts` collectors report once a round, `--in-flight` requests at a time, for `--rounds` rounds,
 * after one round to warm up.
 */
export const heartbeatBench: Bench = async (args) => {
  const options = readBenchOptions(args, { hosts: 3000, rounds: 12, "in-flight": 512 });
  const { hosts: count, rounds, "in-flight": inFlight } = options;
  await using database = await openEmbeddedDatabase();
  const start = systemClock.now();
  const signing = await createBenchSigner();
  const hosts = await enrollBenchHosts(database.db, { signer: signing.signer, count, now: start });
  let now = start;
  const send = openApp(createInProcessCore({ db: database.db, clock: { ...systemClock, now: () => now }, ...signing }));
  const sendAll = (heartbeats: readonly SignedHeartbeat[]): Promise<Float64Array> =>
    runAll(heartbeats.length, inFlight, async (index) => {
      const heartbeat = heartbeats[index];
      if (heartbeat === undefined) return;
      const { certificate } = heartbeat.host;
      const response = await send(listenerRequest(heartbeat.body), { certificate, listener: "ingest" });
      if (response.status !== 200) throw new Error(`heartbeat rejected: ${await response.text()}`);
    });

  await sendAll(hosts.map((host) => signHeartbeat(host, start)));
  const floorRates: number[] = [];
  let seconds = 0;
  const cpu = { core: 0, core_loop: 0, postgres: 0 };
  const latencies = new Float64Array(count * rounds);
  for (let round = 1; round <= rounds; round++) {
    now = start + round * roundMs;
    const heartbeats = hosts.map((host) => signHeartbeat(host, now));
    collectGarbage();
    const startedAt = performance.now();
    const before = cpuNow(database.pid);
    latencies.set(await sendAll(heartbeats), (round - 1) * count);
    seconds += (performance.now() - startedAt) / 1000;
    const after = cpuNow(database.pid);
    for (const part of ["core", "core_loop", "postgres"] as const) cpu[part] += after[part] - before[part];
    floorRates.push(verifyRate(heartbeats));
  }
  const written = await database.sql`select count(*)::int as rows from collector_health
    where last_heartbeat_at = ${new Date(now).toISOString()}::timestamptz`;
  if (written[0]?.rows !== count) throw new Error("the last round is not in the database");
  const microsecondsEach = (cpuSeconds: number) => rounded((cpuSeconds / count / rounds) * 1e6);
  const floor = floorRates.reduce((sum, rate) => sum + rate, 0) / rounds;
  return {
    ...ratedFigures({ figure: (count * rounds) / seconds, floor, goal }),
    unit: "heartbeats/s",
    details: {
      hosts: count,
      rounds,
      in_flight: inFlight,
      seconds: rounded(seconds, 2),
      cpu_us_each: {
        core: microsecondsEach(cpu.core),
        core_loop: microsecondsEach(cpu.core_loop),
        postgres: microsecondsEach(cpu.postgres),
      },
      latency_ms: { p50: rounded(quantile(latencies, 0.5)), p99: rounded(quantile(latencies, 0.99)) },
      floor: "P-256 verifications of the same signatures by node:crypto on one core",
    },
  };
};

const signHeartbeat = (host: BenchHost, sentAt: number): SignedHeartbeat => {
  const body = heartbeatBody(sentAt);
  const { identity, certificateSha256 } = host;
  const payload = proofPayload({
    purpose: "heartbeat",
    identity,
    certificateSha256,
    sentAt: String(body.sent_at),
    bodySha256: hash("sha256", canonicalBody(body), "hex"),
  });
  const data = Buffer.from(payload);
  const signature = sign("sha256", data, host.privateKey);
  const text = JSON.stringify({ ...body, proof: signature.toString("base64") });
  return { host, data, signature, body: new TextEncoder().encode(text) };
};

/**
 * Returns a request that costs what the Node listener's costs: it reads a body of known length without a stream. Parsing HTTP is the
 * listener's work, and not in the figure.
 */
const listenerRequest = (body: Uint8Array<ArrayBuffer>): Request => {
  const headers = new Headers({ "Content-Type": "application/json", "Content-Length": String(body.length) });
  const request: Pick<Request, "method" | "url" | "headers" | "arrayBuffer"> = {
    method: "POST",
    url,
    headers,
    arrayBuffer: async () => body.buffer,
  };
  return request as Request;
};

/** Returns verifications a second on this core. Runs between the rounds, so that the same neighbours slow both figures. */
const verifyRate = (heartbeats: readonly SignedHeartbeat[]): number => {
  const startedAt = performance.now();
  const sample = heartbeats.slice(0, 3000);
  for (const { data, signature, host } of sample)
    if (!verify("sha256", data, host.publicKey, signature)) throw new Error("a signature of ours does not verify");
  return sample.length / ((performance.now() - startedAt) / 1000);
};
