import { writeFileSync } from "node:fs";
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
import { createSeededEntropy } from "../../fakes/entropy.ts";
import { startTcpProxy } from "../../fakes/tcp-proxy.ts";
import { startReplicatedPostgres } from "../../replicated-postgres.ts";
import { writeCollectorFiles } from "../soak/collector-files.ts";
import { createKilledProgram } from "../soak/killed-program.ts";
import { startLoad } from "../soak/load.ts";
import { startCopiedHost } from "./copied-hosts.ts";
import { copyStream } from "./copy-stream.ts";
import type { Scene, SinkName } from "./fault.ts";
import { faultNamesOf } from "./faults.ts";
import { brokenGoals, type FaultReport, faultOf } from "./goals.ts";
import { checkStored, longestPauseMs, type NumberedLoad, startNumberedLoad, untilAllAcked } from "./load.ts";
import { startProxiedNats } from "./proxied-nats.ts";
import { judge, readStoredQueues, type StoredQueues } from "./stored-queues.ts";

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
  /** Acknowledged, lost with a database that was restored, and reported by `ingest.gap`. */
  lost_reported: number;
  /** Queues that continued under a new id. */
  forks: number;
  /** What audit events of forks and gaps lack or make up. */
  event_faults: readonly string[];
  core_peak_mb: number;
  /** The goals that were not met; empty when `ok`. */
  broken: string[];
  ok: boolean;
}

const linesAndSpansPerSecond = 200;
const hostIds = ["a", "b", "c", "d"].map((name) => `https://fleet.chaos/d/${name}`);
const copiedHostIds = ["e", "f"].map((name) => `https://fleet.chaos/d/${name}`);
const collectorHostId = "https://fleet.chaos/d/collector";
const corePeakMbMax = 350;
const drainTimeoutMs = 60_000;

/**
 * Runs a core, PostgreSQL behind a proxy, a collector, four senders and two hosts whose disks are copied, and injects faults one after
 * another in an order that the seed draws, each of `names` once before one comes again: for `minutes`, or each once when that is 0. `program` is a bundle of core.
 */
export const runChaos = async (options: {
  seed: number;
  minutes: number;
  sink?: SinkName;
  names?: readonly string[];
  program?: string;
  progress?: (line: string) => void;
}): Promise<ChaosReport> => {
  const { seed, minutes, sink = "postgres", program, progress = () => undefined } = options;
  const { names = faultNamesOf(sink) } = options;
  const random = createSeededEntropy(seed);
  await using cleanup = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "chaos-"));
  cleanup.defer(() => rm(dir, { recursive: true }));
  const server = await startReplicatedPostgres();
  cleanup.defer(() => server.stop("immediate"));
  const [proxy, direct] = await Promise.all([startTcpProxy(server.socket()), startTcpProxy(server.socket())]);
  for (const { close } of [proxy, direct]) cleanup.defer(close);
  const { sql, close } = connectDatabase({
    url: `postgres://postgres@127.0.0.1:${direct.port}/postgres`,
    openSocket: openDatabaseSocket,
    deadlineMs: drainTimeoutMs,
  });
  cleanup.defer(() => close(1));
  const [ingestPort = 0, otlpPort = 0, httpPort = 0] = await findPorts(3);
  const nats = sink === "nats" ? await startProxiedNats() : null;
  cleanup.defer(() => nats?.stop());
  const natsUrls = nats?.proxies.map(({ port }) => `nats://127.0.0.1:${port}`).join();
  const files = await prepareIngestCore(`postgres://postgres@127.0.0.1:${proxy.port}/postgres`, {
    ingestPort,
    env: {
      PORT: String(httpPort),
      SVC_TRUST_LOOPBACK_OPS: "true",
      SVC_INGEST_SINK: sink,
      ...(natsUrls !== undefined && { SVC_NATS_URLS: natsUrls }),
    },
    ...(program === undefined ? {} : { program }),
  });
  cleanup.defer(() => files.remove());

  const memory = createPeakMeter();
  const core = createKilledProgram(async () => (await files.start()).process, memory.sample);
  cleanup.defer(() => core.end());
  const collectorOptions = { ...(await files.client(collectorHostId)), caPem: files.caPem };
  const { config, log } = await writeCollectorFiles(dir, { ...collectorOptions, otlpPort, ingestPort });
  const collector = createKilledProgram(["run", "--config", config]);
  cleanup.defer(() => collector.end());
  await core.start();
  await collector.start();
  const collected = startLoad(log, `127.0.0.1:${otlpPort}`, linesAndSpansPerSecond);
  cleanup.defer(() => collected.stop());
  const numbered = await startNumberedLoad(hostIds, { port: ingestPort, ...files });
  const strangerOf = async (name: string) => ({
    ...(await files.client(`https://fleet.chaos/d/${name}`)),
    ca: files.caPem,
  });
  const strangers = { resets: await strangerOf("resets"), slow: await strangerOf("slow") };
  const copied = await Promise.all(
    copiedHostIds.map(async (hostId) =>
      startCopiedHost(dir, { hostId, ingestPort, tls: { ...(await files.client(hostId)), ca: files.caPem } }),
    ),
  );
  for (const host of copied) cleanup.defer(() => host.finish());
  const discarded: StoredQueues[] = [];
  const judgedHostIds = [...copiedHostIds, collectorHostId];
  const discardDatabase = async (since: Date) => {
    discarded.push(await readStoredQueues(sql, judgedHostIds, since));
    for (const queue of numbered.queues) queue.expectRewind();
  };
  const failOver = async () => {
    await server.failOver();
    proxy.target(server.socket());
    direct.target(server.socket());
    direct.reset();
  };
  const targets = { postgres: server, failOver, proxy, sql, core, collector, ingestPort, nats };
  const scene: Scene = { ...targets, hostIds, copied, discardDatabase, strangers };
  const ackTimes = [...numbered.ackTimes, ...copied.map((host) => host.ackTimes)];

  const startedAt = performance.now();
  const untilReady = (signal: AbortSignal) => waitForReadiness(httpPort, signal);
  await Promise.all([
    untilAllAcked(ackTimes, startedAt, AbortSignal.timeout(drainTimeoutMs)),
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
    memory.reset(core.pid());
    const measured = await injectFault({ name, draw, scene, ackTimes, untilReady, startedAt });
    memory.sample(core.pid());
    const report = { ...measured, core_peak_mb: memory.sinceReset() };
    reports.push(report);
    progress(JSON.stringify(report));
  } while (minutes === 0 ? order.length > 0 : performance.now() - startedAt < minutes * 60_000);

  collected.stop();
  await Promise.all([numbered.finish(), ...copied.map((host) => host.finish())]);
  if (nats) await copyStream(nats, sql);
  const fromSenders = await checkStored(sql, numbered.queues);
  const ofCollector = [
    ...Array.from({ length: collected.lines() }, (_, line) => `line ${line}`),
    ...Array.from(collected.accepted, (span) => `span-${span}`),
  ];
  const collectorHost = { hostId: collectorHostId, owed: new Set(ofCollector), forked: new Set<string>() };
  const judged = [{ ...collectorHost, isCopied: false }, ...copied.map((host) => ({ ...host, isCopied: true }))];
  const deadline = performance.now() + drainTimeoutMs;
  const judgeNow = async () => judge(await readStoredQueues(sql, judgedHostIds), discarded, judged);
  let fromQueues = await judgeNow();
  while (fromQueues.missing > 0 && performance.now() < deadline) {
    await systemClock.sleep(500);
    if (nats) await copyStream(nats, sql);
    fromQueues = await judgeNow();
  }
  memory.sample(core.pid());
  const peakMb = memory.overall();
  const counts = {
    acked: judged.reduce((sum, { owed }) => sum + owed.size, fromSenders.acked),
    stored: fromSenders.stored + fromQueues.stored,
    duplicates: fromSenders.duplicates + fromQueues.duplicates,
    missing: fromSenders.missing + fromQueues.missing,
    disordered: fromSenders.disordered + fromQueues.disordered,
    lost_reported: fromQueues.lostReported,
    forks: fromQueues.forks,
    event_faults: fromQueues.faults,
  };
  const broken = [
    ...(["duplicates", "missing", "disordered"] as const).filter((count) => counts[count] > 0),
    ...fromQueues.faults,
    ...(peakMb > corePeakMbMax ? [`core's memory: ${peakMb} MB, at most ${corePeakMbMax} MB`] : []),
    ...names.flatMap((name) => brokenGoals(name, reports)),
  ];
  return { seed, minutes, faults: reports, ...counts, core_peak_mb: peakMb, broken, ok: broken.length === 0 };
};

/** Measures the peak memory of a process that may be restarted: overall, and since the last reset. */
const createPeakMeter = () => {
  let overallMb = 0;
  let sinceResetMb = 0;
  const sample = (pid: number): void => {
    const { peakMb } = memoryOf(pid);
    overallMb = Math.max(overallMb, peakMb);
    sinceResetMb = Math.max(sinceResetMb, peakMb);
  };
  return {
    sample,
    overall: () => overallMb,
    sinceReset: () => sinceResetMb,
    reset(pid: number) {
      sample(pid);
      sinceResetMb = 0;
      // Linux takes 5 for "reset the peak".
      writeFileSync(`/proc/${pid}/clear_refs`, "5");
    },
  };
};

const injectFault = async (context: {
  name: string;
  draw: number;
  scene: Scene;
  ackTimes: NumberedLoad["ackTimes"];
  untilReady(signal: AbortSignal): Promise<number>;
  startedAt: number;
}): Promise<Omit<FaultReport, "core_peak_mb">> => {
  const { name, draw, scene, ackTimes, untilReady, startedAt } = context;
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
  const [ackedAt, readyAt] = await Promise.all([untilAllAcked(ackTimes, end, signal), untilReady(signal)]);
  const others = ackTimes.filter((_, index) => index !== fault.concerned?.(scene, draw));
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

const shuffle = (names: readonly string[], draw: () => number): string[] => {
  const left = [...names];
  return names.map(() => left.splice(Math.floor(draw() * left.length), 1)[0] ?? "");
};
