import { hash, sign, verify } from "node:crypto";
import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createApp } from "../../functions/app.ts";
import type { HttpContext } from "../../functions/http/request.ts";
import { systemClock } from "../../kit/clock.ts";
import { canonicalBody, proofPayload } from "../../proto/management/proof.ts";
import { heartbeatBody } from "../lab/heartbeat-body.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { type Bench, quantile, rated } from "./bench.ts";
import { createBenchCore } from "./core.ts";
import { type BenchHost, createBenchFleet } from "./fleet.ts";
import { cpuSecondsOf } from "./process-usage.ts";

const goal = 0.6;
const url = "http://core.bench/v1/collector/heartbeat";
/** Hosts report this often by the bench's clock: as often as the rate limit lets them. */
const roundMs = 10_000;

/** What making the next round's signatures left behind is not the route's to clear away. */
const collectGarbage = (): void => {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
};

/** CPU seconds used so far: by core with all its threads, by its event loop alone, and by PostgreSQL. */
const cpuNow = (postmaster: number) => {
  const [all, loop] = [process.cpuUsage(), process.threadCpuUsage()];
  return {
    core: (all.user + all.system) / 1e6,
    loop: (loop.user + loop.system) / 1e6,
    postgres: cpuSecondsOf(postmaster),
  };
};

/** A signed heartbeat, ready to send. */
interface Shot {
  host: BenchHost;
  data: Buffer;
  signature: Buffer;
  body: Uint8Array<ArrayBuffer>;
}

/**
 * Heartbeats through the whole route: app, proof, group commit into a durable PostgreSQL. The floor is what one core verifies of the
 * very same signatures. `--hosts` collectors report once a round, `--in-flight` requests at a time, for `--rounds` rounds; one
 * round more goes ahead to warm up.
 */
export const bench: Bench = async (args) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      hosts: { type: "string", default: "3000" },
      rounds: { type: "string", default: "12" },
      "in-flight": { type: "string", default: "512" },
    },
  });
  const [hosts, rounds, inFlight] = [Number(values.hosts), Number(values.rounds), Number(values["in-flight"])];
  const database = await openEmbeddedDatabase();
  try {
    const start = systemClock.now();
    const fleet = await createBenchFleet(database.db, { count: hosts, now: start });
    let now = start;
    const app = createApp(
      createBenchCore(database, fleet, () => now),
      { peerOf: (c: HttpContext) => c.env.peer },
    );
    const shotsAt = (round: number) => fleet.hosts.map((host) => signShot(host, start + round * roundMs));

    const warmUp = shotsAt(0);
    await fire(app, warmUp, inFlight);
    const floorRates: number[] = [];
    let seconds = 0;
    const cpu = { core: 0, loop: 0, postgres: 0 };
    const latencies = new Float64Array(hosts * rounds);
    for (let round = 1; round <= rounds; round++) {
      const shots = shotsAt(round);
      now = start + round * roundMs;
      collectGarbage();
      const startedAt = performance.now();
      const before = cpuNow(database.pid);
      latencies.set(await fire(app, shots, inFlight), (round - 1) * hosts);
      seconds += (performance.now() - startedAt) / 1000;
      const after = cpuNow(database.pid);
      for (const part of ["core", "loop", "postgres"] as const) cpu[part] += after[part] - before[part];
      floorRates.push(verifyRate(shots));
    }
    const written = await database.sql`select count(*)::int as rows from collector_health
      where last_heartbeat_at = ${new Date(now).toISOString()}::timestamptz`;
    if (written[0]?.rows !== hosts) throw new Error("the last round is not in the database");
    const microsecondsEach = (cpuSeconds: number) => Math.round((cpuSeconds / hosts / rounds) * 1e6);
    const floor = floorRates.reduce((sum, rate) => sum + rate, 0) / rounds;
    const details = {
      hosts,
      rounds,
      in_flight: inFlight,
      seconds: Math.round(seconds * 100) / 100,
      cpu_us_each: {
        core: microsecondsEach(cpu.core),
        core_loop: microsecondsEach(cpu.loop),
        postgres: microsecondsEach(cpu.postgres),
      },
      latency_ms: { p50: Math.round(quantile(latencies, 0.5)), p99: Math.round(quantile(latencies, 0.99)) },
      floor: "P-256 verifications of the same signatures by node:crypto on one core",
    };
    return { ...rated("heartbeat", "heartbeats/s", { figure: (hosts * rounds) / seconds, floor, goal }), details };
  } finally {
    await database.close();
  }
};

const signShot = (host: BenchHost, sentAt: number): Shot => {
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
 * A request as light as the Node listener's: it reads a body whose length was told without a stream. Parsing HTTP is the listener's
 * work and not in the figure.
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

/** Sends all, `inFlight` at a time; gives each one's milliseconds. Throws unless every one is taken. */
const fire = async (
  app: ReturnType<typeof createApp>,
  shots: readonly Shot[],
  inFlight: number,
): Promise<Float64Array> => {
  const latencies = new Float64Array(shots.length);
  let next = 0;
  const send = async () => {
    for (let index = next++; index < shots.length; index = next++) {
      const shot = shots[index];
      if (shot === undefined) return;
      const startedAt = performance.now();
      const peer = { remoteAddress: "127.0.0.1", certificate: shot.host.certificate, listener: "ingest" };
      const response = await app.fetch(listenerRequest(shot.body), { peer });
      if (response.status !== 200) throw new Error(`heartbeat refused: ${await response.text()}`);
      latencies[index] = performance.now() - startedAt;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, send));
  return latencies;
};

/** Verifications a second on this core: between the rounds, so that both figures meet the same neighbours. */
const verifyRate = (shots: readonly Shot[]): number => {
  const startedAt = performance.now();
  let count = 0;
  for (const { data, signature, host } of shots) {
    if (!verify("sha256", data, host.publicKey, signature)) throw new Error("a signature of ours does not verify");
    if (++count === 3000) break;
  }
  return count / ((performance.now() - startedAt) / 1000);
};
