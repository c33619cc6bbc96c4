/** Attacks a real core with floods, one attack after another, each on a new core, beside a well-behaved client. */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { cpuSecondsOf, memoryOf } from "#scripts/bench/support/processes.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { frame, newQueue } from "#tests/support/frames.ts";
import { connectForeign, submit } from "#tests/support/grpc-client.ts";
import { programFile } from "#tests/support/program.ts";
import { attackerHost, attacks } from "./attacks.ts";
import { messageAttacks } from "./message-attacks.ts";

const peakMbMax = 350;
const worker = new URL("./attacker.ts", import.meta.url);

/** Returns the p99 of durations, in milliseconds with one decimal place. */
export const p99Of = (durations: number[]) =>
  Math.round((durations.sort((a, b) => a - b)[Math.floor(durations.length * 0.99)] ?? 0) * 10) / 10;

const percent = (cpuSeconds: number, seconds: number) => Math.round((100 * cpuSeconds) / seconds);

/** The result of one attack. */
export interface FloodResult {
  /** The streams or connections that it opened. */
  opened: number;
  peak_mb: number;
  p99_ms: number;
  core_cpu_percent: number;
  attacker_cpu_percent: number;
  /** The frames that the client committed. */
  frames: number;
  ok: boolean;
}

/** Runs attacks of so many seconds each, all of them or those named, after a time without one; throws if core rejects the client. */
export const runFloods = async ({
  seconds,
  names = Object.keys(attacks),
  warmUpMs = 2_000,
}: {
  seconds: number;
  names?: readonly string[];
  warmUpMs?: number;
}): Promise<{ ok: boolean; seconds: number; results: Record<string, FloodResult> }> => {
  const database = await openEmbeddedDatabase();
  const core = await prepareIngestCore(database.url, { program: programFile("functions/main.ts") });
  const host = "https://fleet.flood/d/well-behaved";
  const pair = await core.client(host);
  const attacker = await core.client(attackerHost);
  const results: Record<string, FloodResult> = {};
  let alone = 0;
  let ok = true;
  for (const name of ["alone", ...names]) {
    const { ingestPort, process: child } = await core.start();
    const pid = child.pid ?? 0;
    const client = connectForeign(
      { port: ingestPort, caPem: core.caPem },
      { ...pair, der: new Uint8Array() },
    );
    const queue = newQueue();
    const durations: number[] = [];
    const sendFor = async (ms: number, to: number[], isAttacked = () => false) => {
      const end = Date.now() + ms;
      for (let sequence = 1 + sent; Date.now() < end || isAttacked(); sequence++, sent++) {
        const startedAt = performance.now();
        const { error } = await submit(client, frame(queue, sequence, sequence, host));
        if (error !== undefined)
          throw new Error(`${name}: the well-behaved client got ${JSON.stringify(error)}`);
        to.push(performance.now() - startedAt);
        await sleep(10);
      }
    };
    let sent = 0;
    // Code that has not run yet is slow, whoever calls it.
    await sendFor(warmUpMs, []);
    // Made before its time begins.
    const message = messageAttacks[name]?.(attackerHost);
    const target = { port: ingestPort, caPem: core.caPem, pair: attacker };
    const attack =
      name === "alone"
        ? undefined
        : new Worker(worker, { workerData: { name, seconds, message, ...target } });
    let isAttacked = attack !== undefined;
    const attacked =
      attack === undefined
        ? Promise.resolve([{ opened: 0, cpuSeconds: 0 }])
        : once(attack, "message").finally(() => {
            isAttacked = false;
          });
    const cpuBefore = cpuSecondsOf(pid);
    const begun = performance.now();
    // An attack may last longer than it should: its thread has the lowest priority.
    await sendFor(seconds * 1_000, durations, () => isAttacked);
    const lasted = (performance.now() - begun) / 1_000;
    const corePercent = percent(cpuSecondsOf(pid) - cpuBefore, lasted);
    const [{ opened, cpuSeconds }] = await attacked;
    const { peakMb } = memoryOf(pid);
    const p99 = p99Of(durations);
    if (name === "alone") alone = p99;
    const p99Max = name in messageAttacks ? 250 : 50;
    const holds =
      peakMb <= peakMbMax && child.exitCode === null && p99 <= Math.max(2 * alone, p99Max);
    ok &&= holds;
    process.stderr.write(`${name}: ${peakMb} MB, p99 ${p99} ms\n`);
    const cpu = {
      core_cpu_percent: corePercent,
      attacker_cpu_percent: percent(cpuSeconds, lasted),
    };
    results[name] = {
      opened,
      peak_mb: peakMb,
      p99_ms: p99,
      ...cpu,
      frames: durations.length,
      ok: holds,
    };
    client.close();
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await exited;
  }
  await core.remove();
  await database.close();
  return { ok, seconds, results };
};
