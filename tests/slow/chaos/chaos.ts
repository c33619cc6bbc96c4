import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabaseSocket } from "../../../functions/node/database-socket.ts";
import { connectDatabase } from "../../../functions/store/database.ts";
import { systemClock } from "../../../kit/clock.ts";
import { fraction } from "../../../kit/entropy.ts";
import { memoryOf } from "../../../scripts/bench/processes.ts";
import { prepareIngestCore } from "../../../scripts/lab/ingest-core.ts";
import { findPorts } from "../../../scripts/ports.ts";
import { startEmbeddedPostgres } from "../../../scripts/postgres/embedded-postgres.ts";
import { createSeededEntropy } from "../../fakes/entropy.ts";
import { startTcpProxy } from "../../fakes/tcp-proxy.ts";
import { writeCollectorFiles } from "../soak/collector-files.ts";
import { createKilledProgram } from "../soak/killed-program.ts";
import { startLoad } from "../soak/load.ts";
import { readStored, resultOf } from "../soak/result.ts";
import { type Fault, faults, type Scene } from "./faults.ts";
import { checkStored, longestPauseMs, type NumberedLoad, startNumberedLoad, untilAllAcked } from "./load.ts";

/** One fault as it happened, with whole milliseconds; null is longer than a minute. */
export interface FaultReport {
  fault: string;
  id: string;
  /** Since the start of the run. */
  at_seconds: number;
  lasted_ms: number;
  /** From its end until every queue was acknowledged again, and until core was ready. */
  ack_ms: number | null;
  ready_ms: number | null;
  /** The longest time without an acknowledgement while it lasted. */
  pause_ms: number;
  /** Why it could not be injected as written. */
  error?: string;
}

/** The result of a run. */
export interface ChaosReport {
  seed: number;
  minutes: number;
  faults: FaultReport[];
  acked: number;
  stored: number;
  duplicates: number;
  missing: number;
  disordered: number;
  core_peak_mb: number;
  /** The goals that were not met; empty when `ok`. */
  broken: string[];
  ok: boolean;
}

const linesAndSpansPerSecond = 200;
const hostIds = ["a", "b", "c", "d"].map((name) => `https://fleet.chaos/d/${name}`);
const corePeakMbMax = 350;
const drainTimeoutMs = 60_000;

/**
 * Runs a core, PostgreSQL behind a proxy, a collector and four senders, and injects faults one after another in an order that the seed
 * draws, each of `names` once before one comes again: for `minutes`, or each once when that is 0. `program` is a bundle of core.
 */
export const runChaos = async (options: {
  seed: number;
  minutes: number;
  names?: readonly string[];
  program?: string;
  progress?: (line: string) => void;
}): Promise<ChaosReport> => {
  const { seed, minutes, names = Object.keys(faults), program, progress = () => undefined } = options;
  const random = createSeededEntropy(seed);
  await using cleanup = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "chaos-"));
  cleanup.defer(() => rm(dir, { recursive: true }));
  const server = await startEmbeddedPostgres();
  cleanup.defer(() => server.stop("immediate"));
  const proxy = await startTcpProxy(`${decodeURIComponent(new URL(server.url()).hostname)}/.s.PGSQL.5432`);
  cleanup.defer(() => proxy.close());
  const { sql, close } = connectDatabase({
    url: server.url(),
    openSocket: openDatabaseSocket,
    deadlineMs: drainTimeoutMs,
  });
  cleanup.defer(() => close(1));
  const [ingestPort = 0, otlpPort = 0, httpPort = 0] = await findPorts(3);
  const files = await prepareIngestCore(`postgres://postgres@127.0.0.1:${proxy.port}/postgres`, {
    ingestPort,
    env: { PORT: String(httpPort), SVC_TRUST_LOOPBACK_OPS: "true" },
    ...(program === undefined ? {} : { program }),
  });
  cleanup.defer(() => files.remove());

  let peakMb = 0;
  const sampleMemory = (pid: number) => {
    peakMb = Math.max(peakMb, memoryOf(pid).peakMb);
  };
  const core = createKilledProgram(async () => (await files.start()).process, sampleMemory);
  cleanup.defer(() => core.end());
  const collectorOptions = { ...(await files.client("https://fleet.chaos/d/collector")), caPem: files.caPem };
  const { config, log } = await writeCollectorFiles(dir, { ...collectorOptions, otlpPort, ingestPort });
  const collector = createKilledProgram(["run", "--config", config]);
  cleanup.defer(() => collector.end());
  await core.start();
  await collector.start();
  const collected = startLoad(log, `127.0.0.1:${otlpPort}`, linesAndSpansPerSecond);
  cleanup.defer(() => collected.stop());
  const numbered = await startNumberedLoad(hostIds, { port: ingestPort, ...files });
  const stranger = { ...(await files.client("https://fleet.chaos/d/stranger")), ca: files.caPem };
  const scene: Scene = { postgres: server, proxy, sql, core, collector, ingestPort, hostIds, stranger };

  const startedAt = performance.now();
  const untilReady = (signal: AbortSignal) => waitForReadiness(httpPort, signal);
  await Promise.all([
    untilAllAcked(numbered.ackTimes, startedAt, AbortSignal.timeout(drainTimeoutMs)),
    untilReady(AbortSignal.timeout(drainTimeoutMs)),
  ]);
  progress("everything runs");
  const reports: FaultReport[] = [];
  let order: string[] = [];
  do {
    if (order.length === 0) order = shuffle(names, () => fraction(random));
    const name = order.pop() ?? "";
    const draw = fraction(random);
    await systemClock.sleep(500 + 1_500 * fraction(random));
    const report = await injectFault({ name, draw, scene, numbered, untilReady, startedAt });
    reports.push(report);
    progress(JSON.stringify(report));
  } while (minutes === 0 ? order.length > 0 : performance.now() - startedAt < minutes * 60_000);

  collected.stop();
  await numbered.finish();
  await systemClock.sleep(1_000);
  const fromCollector = resultOf(collected, await readStored(sql, collected, drainTimeoutMs), []);
  const fromSenders = await checkStored(sql, numbered.queues);
  sampleMemory(core.pid());
  const counts = {
    acked: fromSenders.acked + fromCollector.accepted,
    stored: fromSenders.stored + fromCollector.stored,
    duplicates: fromSenders.duplicates + fromCollector.duplicates,
    missing: fromSenders.missing + fromCollector.missing,
    disordered: fromSenders.disordered,
  };
  const broken = [
    ...(["duplicates", "missing", "disordered"] as const).filter((count) => counts[count] > 0),
    ...(peakMb > corePeakMbMax ? [`core's memory: ${peakMb} MB, at most ${corePeakMbMax} MB`] : []),
    ...names.flatMap((name) => brokenGoals(name, reports)),
  ];
  return { seed, minutes, faults: reports, ...counts, core_peak_mb: peakMb, broken, ok: broken.length === 0 };
};

const injectFault = async (context: {
  name: string;
  draw: number;
  scene: Scene;
  numbered: NumberedLoad;
  untilReady(signal: AbortSignal): Promise<number>;
  startedAt: number;
}): Promise<FaultReport> => {
  const { name, draw, scene, numbered, untilReady, startedAt } = context;
  const fault = faultOf(name);
  const begin = performance.now();
  let error: string | undefined;
  try {
    await fault.inject(scene, draw);
  } catch (cause) {
    error = cause instanceof Error ? cause.message : String(cause);
  }
  const end = performance.now();
  const signal = AbortSignal.timeout(drainTimeoutMs);
  const [ackedAt, readyAt] = await Promise.all([untilAllAcked(numbered.ackTimes, end, signal), untilReady(signal)]);
  const others = numbered.ackTimes.filter((_, index) => index !== fault.concerned?.(scene, draw));
  const measured = fault.pause?.of === "any" ? [others.flat().sort((a, b) => a - b)] : others;
  const ms = (value: number) => (Number.isFinite(value) ? Math.round(value) : null);
  return {
    fault: name,
    id: fault.id,
    at_seconds: Math.round((begin - startedAt) / 100) / 10,
    lasted_ms: Math.round(end - begin),
    ack_ms: ms(ackedAt - end),
    ready_ms: ms(readyAt - end),
    pause_ms: Math.round(Math.max(...measured.map((times) => longestPauseMs(times, begin, end)))),
    ...(error === undefined ? {} : { error }),
  };
};

const faultOf = (name: string): Fault => {
  const fault = faults[name];
  if (fault === undefined) throw new Error(`no such fault: ${name}`);
  return fault;
};

/** Resolves to when `/readyz` and `/readyz/ingest` answered 200; Infinity once `signal` aborts. */
const waitForReadiness = async (port: number, signal: AbortSignal): Promise<number> => {
  while (!signal.aborted) {
    const paths = ["/readyz", "/readyz/ingest"];
    const requests = paths.map((path) =>
      fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(5_000) }),
    );
    const answers = await Promise.all(
      requests.map((request) =>
        request.then(
          ({ ok }) => ok,
          () => false,
        ),
      ),
    );
    if (answers.every(Boolean)) return performance.now();
    await systemClock.sleep(20);
  }
  return Number.POSITIVE_INFINITY;
};

/** The recovery of each fault that happened: the longer of acknowledgement and readiness. */
export const recoveryOf = (
  reports: readonly FaultReport[],
  name: string,
): { count: number; p50: number; max: number } => {
  const times = reports
    .filter(({ fault }) => fault === name)
    .map(({ ack_ms: ack, ready_ms: ready }) =>
      Math.max(ack ?? Number.POSITIVE_INFINITY, ready ?? Number.POSITIVE_INFINITY),
    )
    .sort((a, b) => a - b);
  return { count: times.length, p50: times[times.length >> 1] ?? 0, max: times.at(-1) ?? 0 };
};

const brokenGoals = (name: string, reports: readonly FaultReport[]): string[] => {
  const { recoveryMs, pause } = faultOf(name);
  const { p50, max } = recoveryOf(reports, name);
  const ofFault = reports.filter(({ fault }) => fault === name);
  const longest = Math.max(0, ...ofFault.map(({ pause_ms: ms }) => ms));
  return [
    ...ofFault.flatMap(({ error }) => (error === undefined ? [] : [`${name}: ${error}`])),
    ...(max > recoveryMs.max ? [`${name}: recovery took ${max} ms, at most ${recoveryMs.max} ms`] : []),
    ...(recoveryMs.p50 !== undefined && p50 > recoveryMs.p50
      ? [`${name}: recovery took ${p50} ms (p50), at most ${recoveryMs.p50} ms`]
      : []),
    ...(pause !== undefined && longest > pause.msMax
      ? [`${name}: ${longest} ms without an acknowledgement, at most ${pause.msMax} ms`]
      : []),
  ];
};

const shuffle = (names: readonly string[], draw: () => number): string[] => {
  const left = [...names];
  return names.map(() => left.splice(Math.floor(draw() * left.length), 1)[0] ?? "");
};
