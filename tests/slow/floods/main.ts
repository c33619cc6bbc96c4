/**
 * `bun run floods -- [--seconds 10] [--only NAME]`: attacks the ingest listener of a real core, one attack after another, each on a new
 * core, beside a well-behaved client that commits a frame every 10 ms. Prints one JSON object with the peak RSS of core and the p99 of the
 * client beside each attack and alone; exit code 1 when the RSS exceeds 350 MB, the p99 twice the one alone (and 50 ms), or core ends.
 */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { memoryOf } from "../../../scripts/bench/processes.ts";
import { prepareIngestCore } from "../../../scripts/lab/ingest-core.ts";
import { openEmbeddedDatabase } from "../../../scripts/postgres/embedded-database.ts";
import { frame, newQueue } from "../../frames.ts";
import { connectForeign, submit } from "../../grpc-client.ts";
import { attackerHost, attacks } from "./attacks.ts";

const peakMbMax = 350;
const worker = new URL("./attacker.ts", import.meta.url);

const p99Of = (durations: number[]): number =>
  Math.round((durations.sort((a, b) => a - b)[Math.floor(durations.length * 0.99)] ?? 0) * 10) / 10;

const run = async (seconds: number, only: string | undefined) => {
  const database = await openEmbeddedDatabase();
  const core = await prepareIngestCore(database.url);
  const host = "https://fleet.flood/d/well-behaved";
  const [pair, attacker] = [await core.client(host), await core.client(attackerHost)];
  const results: Record<string, object> = {};
  let alone = 0;
  let ok = true;
  for (const name of ["alone", ...Object.keys(attacks)]) {
    if (only !== undefined && name !== "alone" && name !== only) continue;
    const { ingestPort, process: child } = await core.start();
    const pid = child.pid ?? 0;
    const client = connectForeign({ port: ingestPort, caPem: core.caPem }, { ...pair, der: new Uint8Array() });
    const queue = newQueue();
    const durations: number[] = [];
    const sendFor = async (ms: number, to: number[]) => {
      const end = Date.now() + ms;
      for (let sequence = 1 + sent; Date.now() < end; sequence++, sent++) {
        const startedAt = performance.now();
        const { error } = await submit(client, frame(queue, sequence, sequence, host));
        if (error !== undefined) throw new Error(`${name}: the well-behaved client got ${JSON.stringify(error)}`);
        to.push(performance.now() - startedAt);
        await sleep(10);
      }
    };
    let sent = 0;
    // Code that has not run yet is slow, whoever calls it.
    await sendFor(2_000, []);
    const attack =
      name === "alone"
        ? undefined
        : new Worker(worker, { workerData: { name, seconds, port: ingestPort, caPem: core.caPem, pair: attacker } });
    const attacked = attack === undefined ? [0] : once(attack, "message");
    await sendFor(seconds * 1_000, durations);
    const [opened] = await attacked;
    const { peakMb } = memoryOf(pid);
    const p99 = p99Of(durations);
    if (name === "alone") alone = p99;
    const holds = peakMb <= peakMbMax && child.exitCode === null && p99 <= Math.max(2 * alone, 50);
    ok &&= holds;
    process.stderr.write(`${name}: ${peakMb} MB, p99 ${p99} ms\n`);
    results[name] = { opened, peak_mb: peakMb, p99_ms: p99, frames: durations.length, ok: holds };
    client.close();
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await exited;
  }
  await core.remove();
  await database.close();
  return { ok, seconds, results };
};

const { values } = parseArgs({ options: { seconds: { type: "string", default: "10" }, only: { type: "string" } } });
const result = await run(Math.min(Number(values.seconds), 60), values.only);
process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
process.exit(result.ok ? 0 : 1);
